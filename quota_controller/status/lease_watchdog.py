"""PURE. Whether a scheduler leads, judged by the local clock: clocks of other nodes may be off."""

from dataclasses import dataclass

from cede.api.kueue import Lease
from cede.api.objects import unix

UNNAMED_LEADER = "nobody yet"
"""The leader while the lease is renewed without the name of a holder."""


@dataclass(frozen=True)
class Renewal:
    """The last renewal of the scheduler's lease."""

    # `renewTime` as it is in the lease
    renew_time: str
    # Unix seconds by the local clock, when this renewal was first observed
    observed: float
    # identity of the holder; of the last one, if the lease was released and names nobody
    holder: str


def observe(last: Renewal | None, lease: Lease | None, now: float) -> Renewal | None:
    """The last renewal after this look at the lease; None when there is no lease.

    The first look uses the lease's own time, if it is in the past. Later looks use the local clock.
    """
    if lease is None or not lease.spec.renewTime:
        return None
    renew_time = lease.spec.renewTime
    holder = lease.spec.holderIdentity or ""
    if last is None:
        return Renewal(renew_time, min(now, unix(renew_time)), holder)
    if last.renew_time == renew_time:
        return last
    return Renewal(renew_time, now, holder or last.holder)


def leader(renewal: Renewal | None, watchdog_s: float, now: float) -> str:
    """The scheduler that leads; empty when none has renewed the lease for `watchdog_s` seconds."""
    if renewal is None or seconds_left(renewal, watchdog_s, now) is None:
        return ""
    return renewal.holder or UNNAMED_LEADER


def seconds_left(renewal: Renewal | None, watchdog_s: float, now: float) -> float | None:
    """Seconds until Kueue gets its preemption back if no renewal follows; None when it has it."""
    if renewal is None or now - renewal.observed >= watchdog_s:
        return None
    return renewal.observed + watchdog_s - now
