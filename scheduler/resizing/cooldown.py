"""PURE. Which jobs do not grow yet because they shrank a moment ago."""

from collections.abc import Iterable

from cede.api.cession import Cession
from cede.api.objects import unix
from cede.api.reasons import CessionPhase
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload

ROUNDING_S = 1.0
"""The time of a shrink is written in whole seconds, rounded down."""


def jobs_in_cooldown(snapshot: Snapshot, cooldown_s: float, now: float) -> set[str]:
    """The identities of the jobs whose last shrink was less than `cooldown_s` ago.

    Without those that shrank for a preemptor that was then deleted or deactivated: nobody wants
    what they gave.
    """
    unwanted = [
        cession
        for cession in snapshot.cessions
        if cession.status.phase is CessionPhase.CANCELLED and not _is_wanted(cession, snapshot)
    ]
    return {
        job.identity
        for job in snapshot.elastic
        if now - job.shrunk_at < cooldown_s and not _shrank_for_any(unwanted, job)
    }


def _is_wanted(cession: Cession, snapshot: Snapshot) -> bool:
    """Whether its preemptor is there, waiting or admitted."""
    uid = cession.spec.preemptor.uid
    pending = snapshot.find_pending(uid)
    return pending.active if pending else snapshot.find_admitted(uid) is not None


def _shrank_for_any(cessions: Iterable[Cession], job: AdmittedWorkload) -> bool:
    return any(_shrank_for(cession, job) for cession in cessions)


def _shrank_for(cession: Cession, job: AdmittedWorkload) -> bool:
    """Whether the last shrink of the job was for this Cession, which has ended."""
    requested = cession.target_status(job.identity).resizeRequestedTime
    if not requested:
        return False
    since = unix(requested) - ROUNDING_S
    return since <= job.shrunk_at <= unix(cession.status.completionTime)
