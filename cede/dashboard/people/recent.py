"""Answers that are asked for again after a short time, and once by many at the same time."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")
MAX_KEPT = 4096
MAX_ASKING = 8
"""Questions at a time about those who were known before."""
MAX_STRANGERS_ASKING = 4
MAX_STRANGERS_WAITING = 256


class Busy(Exception):
    """Too many strangers wait."""


@dataclass(frozen=True)
class _Kept(Generic[A]):
    answer: A
    until: float


class Recent(Generic[K, A]):
    """`valid_s` says for how long an answer counts, and `knows` whether it is one about somebody
    that the cluster knows. Strangers keep nobody else waiting, and displace no answer about others.
    """

    def __init__(
        self, valid_s: Callable[[A], float], knows: Callable[[A], bool] = lambda _: True
    ) -> None:
        self._valid_s = valid_s
        self._knows = knows
        # answers that do not count any more say who is no stranger
        self._known = OrderedDict[K, _Kept[A]]()
        self._unknown = OrderedDict[K, _Kept[A]]()
        self._turns = WeakValueDictionary[Hashable, asyncio.Lock]()
        self._places = asyncio.Semaphore(MAX_ASKING)
        self._strangers = asyncio.Semaphore(MAX_STRANGERS_ASKING)
        self._waiting_strangers = 0

    async def get(self, key: K, ask: Callable[[], Awaitable[A]], turn: Hashable | None = None) -> A:
        """What `ask` says about the key, now or a short time ago. With an equal `turn`, which is
        the key if none is given, one is asked about after the other. What `ask` raises is raised,
        and not kept. Raises Busy."""
        if kept := self._present(key):
            return kept.answer
        async with self._turn(key if turn is None else turn):
            # another request has asked meanwhile
            if kept := self._present(key):
                return kept.answer
            async with self._place(key):
                answer = await ask()
            self._keep(key, answer)
            return answer

    def _turn(self, turn: Hashable) -> asyncio.Lock:
        """Kept for as long as somebody has it, or waits for it."""
        lock = self._turns.get(turn)
        if lock is None:
            lock = self._turns[turn] = asyncio.Lock()
        return lock

    @asynccontextmanager
    async def _place(self, key: K) -> AsyncIterator[None]:
        if key in self._known:
            async with self._places:
                yield
            return
        if self._waiting_strangers >= MAX_STRANGERS_WAITING:
            raise Busy
        self._waiting_strangers += 1
        try:
            async with self._strangers:
                yield
        finally:
            self._waiting_strangers -= 1

    def _present(self, key: K) -> _Kept[A] | None:
        kept = self._known.get(key) or self._unknown.get(key)
        return kept if kept and kept.until > _now() else None

    def _keep(self, key: K, answer: A) -> None:
        for kept in (self._known, self._unknown):
            kept.pop(key, None)
        kept = self._known if self._knows(answer) else self._unknown
        kept[key] = _Kept(answer, _now() + self._valid_s(answer))
        while len(kept) > MAX_KEPT:
            kept.popitem(last=False)


def _now() -> float:
    return asyncio.get_running_loop().time()
