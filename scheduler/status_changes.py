"""PURE. When a status that has changed wakes the scheduler."""

import math
from dataclasses import dataclass, replace

from elastic_runtime.contract import Status

BURST = 20
"""So many changes of one job wake it at once, as in a resize, whose end must not wait."""
INTERVAL_S = 1.0
"""A job whose status changes without end wakes it so often."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Of the status of one job."""

    # what a plan depends on, as last reported; None before the first status
    reported: tuple[object, ...] | None = None
    # whether it has changed since the job last woke the scheduler
    is_new: bool = False
    # by the monotonic clock: each time that the job wakes the scheduler adds INTERVAL_S
    busy_until: float = -math.inf


def note(changes: Changes, status: Status, now: float) -> tuple[Changes, bool]:
    """With one more status, and whether it wakes the scheduler. What does not wake it now is left
    for the next status."""
    reported = _what_matters(status)
    is_new = changes.is_new or reported != changes.reported
    busy_until = max(changes.busy_until, now)
    if not is_new or busy_until > now + (BURST - 1) * INTERVAL_S:
        return replace(changes, reported=reported, is_new=is_new), False
    return Changes(reported, busy_until=busy_until + INTERVAL_S), True


def _what_matters(status: Status) -> tuple[object, ...]:
    """What a plan depends on; the number of the step is not part of it."""
    return status.state, status.size, status.wanted, status.cession, status.parked
