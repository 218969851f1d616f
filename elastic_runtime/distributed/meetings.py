"""Where the ranks of a group meet before collectives that only a call of the script starts.

Ranks that are in different collectives would exchange nonsense, or wait without end. So the ranks
meet by the group's store first. A rank that waits for long in a collective of a step looks there
whether the others wait for it, and answers them.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from elastic_runtime import collective_checks
from elastic_runtime.distributed.gloo import PeerLost, PrefixStore
from elastic_runtime.mistake import Mistake

# Between two looks for the end of a meeting: at first, for each rank, because one store answers
# them all; then this share of the time that has passed; at most.
MIN_POLL_S = 0.0002
MAX_POLL_SHARE = 0.05
MAX_POLL_S = 0.1
# Between two looks for an abort.
ABORT_INTERVAL_S = 0.02
# Until a rank that waits in a collective looks, and between two looks.
LOOK_INTERVAL_S = 1.0
# For the others to read the answer, before the rank that gave it may end.
ANSWER_TIME_S = 0.6
# How a meeting ends: all have come, or one is beyond and this is its answer, or two of them came
# for different calls.
ALL_ARE_HERE = b"all"
ANSWER = b"answer:"
DIFFERENT = b"different:"
ABORTED = "the group was aborted while its ranks met"
# Of how many places a rank knows how many meetings there were.
MAX_PLACES = 4


def evaluations_of(step: int) -> str:
    """The place where ranks meet for evaluations of the state of `step`."""
    return f"{step}"


def before_passes_of(step: int) -> str:
    """The place for the script's own collectives in the step after `step`, before its passes."""
    return f"{step}/before"


def behind_passes_of(step: int) -> str:
    """The same behind its passes."""
    return f"{step}/behind"


class Meetings:
    """Of one rank, in one group. No rank is beyond a meeting before all are in it.

    A store may block for as long as its host is frozen, and no abort frees that. So it is only used
    on threads, which are abandoned then.
    """

    def __init__(self, world: int, is_aborted: Callable[[], bool]) -> None:
        # The places to which this rank does not come any more, so that others may be there in vain,
        # and what it answers to those that are about to evaluate.
        self.places: Sequence[str] = ()
        self.answer: Callable[[], bytes] = bytes
        # Called again and again while this rank waits.
        self.on_wait: Callable[[], None] = lambda: None
        self._world = world
        self._is_aborted = is_aborted
        self._store: Any = None
        # By place: how many meetings there were.
        self._counts = dict[str, int]()
        self._look: threading.Thread | None = None
        self._looked_at = 0.0
        # What the others were about to do, and when they were given an empty answer.
        self._answered: tuple[str, float] | None = None

    def open(self, store: Any) -> None:
        self._store = PrefixStore("meetings", store)

    def close(self) -> Any:
        """What the caller drops."""
        store, self._store = self._store, None
        return store

    def hold(self, place: str, call: str) -> bytes | None:
        """Block until all ranks are at this place. None, or the answer of a rank that is beyond.

        `call`: what this rank is about to do. Raises Mistake if another is about to do something
        else, PeerLost when the group is aborted or the store is lost.
        """
        key = self._key(place)
        self._count_one(place)
        if self._world == 1:
            return None
        results: list[bytes | Exception | None] = []
        has_ended = threading.Event()
        has_given_up = threading.Event()

        def meet() -> None:
            try:
                results.append(self._meet(self._store, key, call, has_given_up.is_set))
            except (RuntimeError, Mistake) as error:
                results.append(error)
            has_ended.set()

        threading.Thread(target=meet, daemon=True, name="meet").start()
        try:
            while not has_ended.wait(ABORT_INTERVAL_S):
                if self._is_aborted():
                    raise PeerLost(ABORTED)
                self.look()
        except Mistake:
            # Python ends badly while a thread is inside the store.
            has_given_up.set()
            has_ended.wait(ANSWER_TIME_S)
            raise
        [result] = results
        if isinstance(result, Mistake):
            raise result
        if isinstance(result, Exception):
            raise PeerLost(str(result)) from result
        return result

    def _meet(
        self, store: Any, key: str, call: str, has_given_up: Callable[[], bool]
    ) -> bytes | None:
        first_call = store.compare_set(f"{key}/call", "", call).decode()
        if first_call != call:
            store.set(f"{key}/end", DIFFERENT + f"{first_call}\n{call}".encode())
        elif store.add(key, 1) == self._world:
            store.set(f"{key}/end", ALL_ARE_HERE)
            return None
        began = time.monotonic()
        # The store's own wait would log that it times out.
        while not store.check([f"{key}/end"]):
            if self._is_aborted() or has_given_up():
                raise PeerLost(ABORTED)
            late_s = MAX_POLL_SHARE * (time.monotonic() - began)
            time.sleep(min(max(late_s, MIN_POLL_S * self._world), MAX_POLL_S))
        end: bytes = store.get(f"{key}/end")
        if end.startswith(DIFFERENT):
            # The others read it too, before this rank ends, and perhaps its store.
            time.sleep(ANSWER_TIME_S)
            calls = end.removeprefix(DIFFERENT).decode().split("\n")
            raise Mistake(collective_checks.different_calls(calls))
        return end.removeprefix(ANSWER) if end.startswith(ANSWER) else None

    def look(self) -> None:
        """Answer the ranks that meet where this one, which waits elsewhere, does not come.

        Called again and again while this rank waits. Raises Mistake if it had nothing to answer,
        as soon as they know that.
        """
        self.on_wait()
        if not self.places:
            return
        now = time.monotonic()
        if self._answered:
            call, answered_at = self._answered
            if now - answered_at > ANSWER_TIME_S:
                raise Mistake(collective_checks.not_everywhere(call))
            return
        is_looking = self._look and self._look.is_alive()
        if not is_looking and now - self._looked_at > LOOK_INTERVAL_S:
            self._looked_at = now
            self._look = threading.Thread(
                target=self._answer,
                args=[self._store, [self._key(place) for place in self.places]],
                daemon=True,
                name="look-for-meeting",
            )
            self._look.start()

    def _answer(self, store: Any, keys: Sequence[str]) -> None:
        # The store may be lost.
        with suppress(RuntimeError):
            for key in keys:
                if not store.check([key]):
                    continue
                call = store.get(f"{key}/call").decode()
                content = self.answer() if call == collective_checks.EVALUATION else b""
                store.set(f"{key}/end", ANSWER + content)
                # With an answer they do not meet here again.
                if not content:
                    self._answered = (call, time.monotonic())

    def _key(self, place: str) -> str:
        return f"{place}/{self._counts.get(place, 0)}"

    def _count_one(self, place: str) -> None:
        self._counts[place] = self._counts.pop(place, 0) + 1
        if len(self._counts) > MAX_PLACES:
            del self._counts[next(iter(self._counts))]
