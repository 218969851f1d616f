"""PURE. Whether a scheduler leads and makes progress, judged by the local clock: clocks of other
nodes may be off.

A lease that is renewed proves nothing: the process may hang, fail in every pass, or end and start
again. So the time of the last whole pass counts, which the leader writes into its lease.
"""

from dataclasses import dataclass, replace

from cede.api import names
from cede.api.kueue import Lease
from cede.api.objects import unix

UNNAMED_LEADER = "nobody yet"
"""The leader while its lease does not name a holder."""
RETURN_INTERVAL = 5.0
"""Preemption comes back to Cede at most once in this many times `watchdogSeconds`, 10 minutes by
default, so that it does not flap."""


@dataclass(frozen=True)
class Leadership:
    """The last whole pass of a scheduler, and whether Cede preempts by it."""

    # as it is in the lease
    last_pass: str
    # Unix seconds by the local clock, when this pass was first observed
    observed: float
    # identity of the holder; of the last one, if the lease was released and names nobody
    holder: str
    leads: bool
    # Unix seconds by the local clock, when preemption came back to Cede after an interruption
    returned: float = float("-inf")


def observe(
    last: Leadership | None, lease: Lease | None, watchdog_s: float, now: float
) -> Leadership | None:
    """The leadership after this look at the lease; None when no scheduler has ever made a pass.

    The first look uses the lease's own time, if it is in the past. Later looks use the local clock.
    """
    last_pass = lease.metadata.annotations.get(names.LAST_PASS, "") if lease else ""
    if lease is None or not last_pass:
        return None
    holder = lease.spec.holderIdentity or ""
    if last is None:
        observed = min(now, unix(last_pass))
        return Leadership(last_pass, observed, holder, leads=now - observed < watchdog_s)
    leads = bool(leader(last, watchdog_s, now))
    if last.last_pass == last_pass:
        return replace(last, leads=leads)
    news = replace(last, last_pass=last_pass, observed=now, holder=holder or last.holder)
    if leads:
        return news
    if now - last.returned < RETURN_INTERVAL * watchdog_s:
        return replace(news, leads=False)
    return replace(news, leads=True, returned=now)


def leader(leadership: Leadership | None, watchdog_s: float, now: float) -> str:
    """The scheduler that leads and preempts; empty when none does."""
    if leadership is None or not leadership.leads:
        return ""
    return _active(leadership, watchdog_s, now)


def returning(leadership: Leadership | None, watchdog_s: float, now: float) -> str:
    """The scheduler that finishes passes again, and to which preemption has not come back yet."""
    if leadership is None or leadership.leads:
        return ""
    return _active(leadership, watchdog_s, now)


def _active(leadership: Leadership, watchdog_s: float, now: float) -> str:
    """The scheduler that has finished a pass in the last `watchdog_s` seconds; empty if none."""
    if now - leadership.observed >= watchdog_s:
        return ""
    return leadership.holder or UNNAMED_LEADER


def seconds_left(leadership: Leadership | None, watchdog_s: float, now: float) -> float | None:
    """Seconds until no scheduler counts as alive if no pass follows: Kueue gets its preemption
    back, and what the scheduler did is undone. None if none is alive."""
    if leadership is None or not _active(leadership, watchdog_s, now):
        return None
    return leadership.observed + watchdog_s - now
