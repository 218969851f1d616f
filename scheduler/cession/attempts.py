"""PURE. How often a Workload has tried to preempt, and who pauses after a Cession that failed."""

from cede.api.cession import Cession
from cede.api.cession_pause import pause_s
from cede.api.objects import unix
from cede.api.reasons import CessionPhase
from scheduler.snapshot.snapshot import Snapshot


def next_attempt(snapshot: Snapshot, uid: str) -> int:
    """One more than the highest number in the names of this Workload's Cessions. Their count would
    be too small once old ones are deleted."""
    numbers = (_number(c) for c in snapshot.cessions if c.spec.preemptor.uid == uid)
    return 1 + max(numbers, default=0)


def _number(cession: Cession) -> int:
    digits = cession.metadata.name.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0


def paused_growth(snapshot: Snapshot, now: float) -> set[str]:
    """The uids of the Jobs whose growth may not preempt yet."""
    failed = {c.spec.preemptor.growingJob for c in snapshot.cessions if c.has_failed} - {""}
    return {job for job in failed if pause_left_s(snapshot, job, now)}


def pause_left_s(snapshot: Snapshot, uid: str, now: float) -> float:
    """Seconds until it may preempt again; 0.0 if it may now. `uid` is that of a Workload, or of a
    Job that grows: each of its growths is another Workload."""
    failures = 0
    ended = 0.0
    # oldest first
    for cession in snapshot.cessions:
        preemptor = cession.spec.preemptor
        if (preemptor.growingJob or preemptor.uid) != uid:
            continue
        if cession.status.phase is CessionPhase.COMPLETED:
            failures = 0
        elif cession.has_failed:
            failures += 1
            ended = unix(cession.status.completionTime)
    if not failures:
        return 0.0
    return max(0.0, pause_s(failures) - snapshot.seconds_since(ended, now))
