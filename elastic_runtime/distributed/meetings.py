"""Where the ranks of a group meet before collectives that only a call of the script starts.

Ranks that are in different collectives would exchange nonsense, or wait without end. So the ranks
meet by the group's store first. A rank that waits for long in a collective of a step looks there
whether the others wait for it, and answers them.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from elastic_runtime import evaluation_checks
from elastic_runtime.distributed.gloo import PeerLost, PrefixStore
from elastic_runtime.mistake import Mistake

# Between two looks for the end of a meeting: the first ones, and the others.
MIN_POLL_S = 0.001
MAX_POLL_S = 0.1
# Between two looks for an abort.
ABORT_INTERVAL_S = 0.02
# Until a rank that waits in a collective looks, and between two looks.
LOOK_INTERVAL_S = 1.0
# For the others to read the answer, before the rank that gave it may end.
ANSWER_TIME_S = 0.6
# How a meeting ends: all have come, or one is beyond and this is its answer.
ALL_ARE_HERE = b"all"
ANSWER = b"answer:"


class Meetings:
    """Of one rank, in one group. No rank is beyond a meeting before all are in it.

    A store may block for as long as its host is frozen, and no abort frees that. So it is only used
    on threads, which are abandoned then.
    """

    def __init__(self, world: int, is_aborted: Callable[[], bool]) -> None:
        # Where the others may be in vain while this rank is in a collective, and what it answers.
        self.place = ""
        self.answer: Callable[[], bytes] = bytes
        self._world = world
        self._is_aborted = is_aborted
        self._store: Any = None
        # The place of the last meetings, and how many there were.
        self._held = ("", 0)
        self._look: threading.Thread | None = None
        self._looked_at = 0.0
        # When the others were given an empty answer.
        self._answered_at: float | None = None

    def open(self, store: Any) -> None:
        self._store = PrefixStore("meetings", store)

    def close(self) -> Any:
        """What the caller drops."""
        store, self._store = self._store, None
        return store

    def hold(self, place: str) -> bytes | None:
        """Block until all ranks are at this place. None, or the answer of a rank that is beyond.

        Raises PeerLost when the group is aborted or the store is lost.
        """
        key = self._key(place)
        self._held = (place, self._count(place) + 1)
        if self._world == 1:
            return None
        results: list[bytes | Exception | None] = []
        has_ended = threading.Event()

        def meet() -> None:
            try:
                results.append(self._meet(self._store, key))
            except RuntimeError as error:
                results.append(error)
            has_ended.set()

        threading.Thread(target=meet, daemon=True, name="meet").start()
        while not has_ended.wait(ABORT_INTERVAL_S):
            if self._is_aborted():
                raise PeerLost("the group was aborted while its ranks met")
        if isinstance(results[0], Exception):
            raise PeerLost(str(results[0])) from results[0]
        return results[0]

    def _meet(self, store: Any, key: str) -> bytes | None:
        if store.add(key, 1) == self._world:
            store.set(f"{key}/end", ALL_ARE_HERE)
            return None
        interval_s = MIN_POLL_S
        # The store's own wait would log that it times out.
        while not store.check([f"{key}/end"]):
            if self._is_aborted():
                return None
            time.sleep(interval_s)
            interval_s = min(2 * interval_s, MAX_POLL_S)
        end: bytes = store.get(f"{key}/end")
        return end.removeprefix(ANSWER) if end.startswith(ANSWER) else None

    def look(self) -> None:
        """Answer the ranks that meet where this one, which is in a collective, does not come.

        Called again and again while this rank waits. Raises Mistake if it had nothing to answer,
        as soon as they know that.
        """
        if not self.place:
            return
        now = time.monotonic()
        if self._answered_at is not None:
            if now - self._answered_at > ANSWER_TIME_S:
                raise Mistake(evaluation_checks.NOT_EVERYWHERE)
            return
        is_looking = self._look and self._look.is_alive()
        if not is_looking and now - self._looked_at > LOOK_INTERVAL_S:
            self._looked_at = now
            self._look = threading.Thread(
                target=self._answer,
                args=[self._store, self._key(self.place)],
                daemon=True,
                name="look-for-meeting",
            )
            self._look.start()

    def _answer(self, store: Any, key: str) -> None:
        # The store may be lost.
        with suppress(RuntimeError):
            if not store.check([key]):
                return
            content = self.answer()
            store.set(f"{key}/end", ANSWER + content)
            # With an answer they do not meet here again.
            if not content:
                self._answered_at = time.monotonic()

    def _key(self, place: str) -> str:
        return f"{place}/{self._count(place)}"

    def _count(self, place: str) -> int:
        return self._held[1] if self._held[0] == place else 0
