"""The clock of a scheduler that leads: it does not jump while a Cession is followed."""

import time
from collections.abc import Callable

MAX_GAP_S = 15.0
"""Passes further apart do not belong to one lead: another replica may have led between them."""


class LeaderClock:
    """Unix seconds that advance with the monotonic clock. When the system's clock is set, only
    `adjust` follows it."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._offset = wall() - monotonic()
        self._led_since = monotonic()
        self._last_pass = float("-inf")

    def now(self) -> float:
        return self._monotonic() + self._offset

    @property
    def led_since(self) -> float:
        """Unix seconds by this clock: since when this process leads without a gap."""
        return self._led_since + self._offset

    @property
    def leads(self) -> bool:
        """Whether this process has begun a pass lately."""
        return self._monotonic() - self._last_pass <= MAX_GAP_S

    def note_pass(self) -> None:
        """This process leads, and makes a pass."""
        now = self._monotonic()
        if not self.leads:
            self._led_since = now
        self._last_pass = now

    def adjust(self) -> None:
        """Follow the system's clock. Only while no stage of a Cession is being timed."""
        self._offset = self._wall() - self._monotonic()
