"""Answers that are asked for again after a short time, and once by many at the same time."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")
MAX_KEPT = 4096
MAX_ASKING = 8
"""Strangers cannot make more requests than these at a time."""


@dataclass(frozen=True)
class _Kept(Generic[A]):
    answer: A
    until: float


class Recent(Generic[K, A]):
    """`ask` answers for a key; `valid_s` says for how long an answer counts. What `ask` raises is
    raised, and not kept."""

    def __init__(self, ask: Callable[[K], Awaitable[A]], valid_s: Callable[[A], float]) -> None:
        self._ask = ask
        self._valid_s = valid_s
        self._kept = OrderedDict[K, _Kept[A]]()
        self._asking: dict[K, asyncio.Lock] = {}
        self._places = asyncio.Semaphore(MAX_ASKING)

    async def get(self, key: K) -> A:
        if kept := self._present(key):
            return kept.answer
        lock = self._asking.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                # another request has asked meanwhile
                if kept := self._present(key):
                    return kept.answer
                async with self._places:
                    answer = await self._ask(key)
                self._keep(key, answer)
                return answer
        finally:
            if not lock.locked():
                self._asking.pop(key, None)

    def _present(self, key: K) -> _Kept[A] | None:
        kept = self._kept.get(key)
        return kept if kept and kept.until > _now() else None

    def _keep(self, key: K, answer: A) -> None:
        self._kept[key] = _Kept(answer, _now() + self._valid_s(answer))
        self._kept.move_to_end(key)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)


def _now() -> float:
    return asyncio.get_running_loop().time()
