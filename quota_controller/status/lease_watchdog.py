"""PURE. Whether a scheduler leads, judged by our own clock: remote clocks may be off."""

from dataclasses import dataclass

from cede.api.kueue import Lease
from cede.api.objects import unix


@dataclass(frozen=True)
class Heard:
    """The last renewal of the scheduler's lease."""

    # as the lease writes it
    renewal: str
    # when it was first seen, by our clock
    at: float
    # who renewed it; a lease given back names nobody, then its last holder
    holder: str


def hear(before: Heard | None, lease: Lease | None, now: float) -> Heard | None:
    """What is known after this look at the lease. A first sight trusts the lease's own time, as far
    as it is past."""
    if lease is None or not lease.spec.renewTime:
        return None
    renewal = lease.spec.renewTime
    holder = lease.spec.holderIdentity or ""
    if before is None:
        return Heard(renewal, min(now, unix(renewal)), holder)
    if before.renewal == renewal:
        return before
    return Heard(renewal, now, holder or before.holder)


def leader(heard: Heard | None, watchdog_s: float, now: float) -> str:
    """Who leads; empty when nobody has renewed within the watchdog's time."""
    return (heard.holder or "nobody yet") if heard and now - heard.at < watchdog_s else ""


def seconds_left(heard: Heard | None, watchdog_s: float, now: float) -> float | None:
    """Until the watchdog strikes, should nothing more be heard; None when it has."""
    return heard.at + watchdog_s - now if heard and now - heard.at < watchdog_s else None
