"""Limits the calls to runtimes that run at once: of all jobs, shared between namespaces, and the
requests of each job."""

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

MAX_CALLS = 200
"""At once. A call that waits for its turn does not time out."""
REPEAT_REQUEST_S = 1.0
"""The same request is not sent again within this time."""


class Turns:
    """A free turn goes to the waiting namespace that has the fewest.

    So pods that do not answer delay only calls to their own namespace: when a turn ends, the next
    turn goes to another waiting namespace.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._taken = Counter[str]()
        # by namespace: its calls, the oldest first; of equal ones the first namespace goes next
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def take(self, namespace: str) -> AsyncIterator[None]:
        """A turn of this namespace, until the context ends."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(turn)
        self._grant()
        try:
            await turn
            yield
        finally:
            # a call that was cancelled may just have got its turn
            if not turn.cancelled():
                self._end(namespace)

    def _end(self, namespace: str) -> None:
        self._taken[namespace] -= 1
        if not self._taken[namespace]:
            del self._taken[namespace]
        self._free += 1
        self._grant()

    def _grant(self) -> None:
        while self._free and self._waiting:
            namespace = min(self._waiting, key=self._taken.__getitem__)
            waiting = self._waiting.pop(namespace)
            turn = waiting.popleft()
            if waiting:
                self._waiting[namespace] = waiting
            # a call that was cancelled does not wait any more
            if not turn.cancelled():
                turn.set_result(None)
                self._free -= 1
                self._taken[namespace] += 1


@dataclass(frozen=True, slots=True)
class _Request:
    what: object
    # by the monotonic clock
    sent: float
    call: asyncio.Task[object]


class Requests:
    """The last request of each kind to each job. One of a kind is under way at a time."""

    def __init__(self) -> None:
        # by Job uid, then by path
        self._last = defaultdict[str, dict[str, _Request]](dict)

    def is_repeated(self, uid: str, path: str, what: object) -> bool:
        """Whether the same has just been requested, or has no answer yet."""
        last = self._last[uid].get(path)
        if last is None or last.what != what:
            return False
        return not last.call.done() or time.monotonic() - last.sent < REPEAT_REQUEST_S

    def note(self, uid: str, path: str, what: object, call: asyncio.Task[object]) -> None:
        """This call takes the place of the one before, which ends."""
        if last := self._last[uid].get(path):
            last.call.cancel()
        self._last[uid][path] = _Request(what, time.monotonic(), call)

    def forget(self, uid: str) -> None:
        self._last.pop(uid, None)
