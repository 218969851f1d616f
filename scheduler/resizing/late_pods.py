"""PURE. Which Jobs lose the pods that first run when the job has finished.

A growth or a lost pod shortly before the last step leads to such a pod. It is no member of the job,
so it finds nobody to follow, and would keep its accelerators. A runtime ends with success only once
the scripts of all members have ended (elastic_runtime/agent/membership_view.py, all_have_ended), so
one pod that has succeeded tells that the others have nothing left to do.
"""

from collections.abc import Iterator
from itertools import count

from scheduler.actions import ResizeJob, resize
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload

LAST_REPORTS_S = 30.0
"""The others end within 12 s after the first (elastic_runtime/agent/agent.py, LINGER_S)."""


def remove_late(snapshot: Snapshot, now: float) -> Iterator[ResizeJob]:
    """Such a Job is lowered to the pods that have succeeded, and is Complete.

    The runtime must be known from an answer: pods without one may compute something of their own.
    Late pods that run have to say for `LAST_REPORTS_S` that they know no coordinator, others are
    removed at once. The
    indexes that remain begin at 0, so a Job whose pod 0 has not succeeded keeps its pods: pod 0
    begins from the newest checkpoint, and ends the job by itself.
    """
    for job in snapshot.elastic:
        size = _completed_from_0(job)
        is_staying = job.active and not job.is_evicting
        if size and size < job.parallelism and is_staying and _waits_in_vain(job, now):
            why = "the job has finished: pods that started too late for it are removed"
            yield resize(job, size, why, shrinks=True)


def _completed_from_0(job: AdmittedWorkload) -> int:
    return next(index for index in count() if index not in job.completed)


def _waits_in_vain(job: AdmittedWorkload, now: float) -> bool:
    observed = job.observed
    if not job.addresses:
        return bool(observed.since)
    return bool(observed.leaderless_since) and now - observed.leaderless_since >= LAST_REPORTS_S
