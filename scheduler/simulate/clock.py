"""PURE. A virtual clock: events happen in the order of their times."""

import heapq
from collections.abc import Callable
from itertools import count

START = 1_000_000_000.0
"""Unix seconds at which every simulation starts: to the scheduler, 0 means "never"."""


class Clock:
    """`now` is in Unix seconds, and only `run` moves it."""

    def __init__(self) -> None:
        self.now = START
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def at_time(self, time: float, event: Callable[[], None]) -> None:
        """Events of the same time happen in the order in which they were planned."""
        heapq.heappush(self._events, (max(time, self.now), next(self._numbers), event))

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        self.at_time(self.now + seconds, event)

    def run(self, until: float) -> None:
        """All events up to this time happen, and those that they plan."""
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = max(self.now, until)
