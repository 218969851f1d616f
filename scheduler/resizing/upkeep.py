"""PURE. What must hold whatever happened before: runtimes know the size of their Job, stopped jobs
wait at their smallest size, and old records are deleted."""

from collections.abc import Collection, Iterator

from scheduler.actions import DeleteCession, RequestSize, ResizeJob, request_size
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload

MAX_ENDED_CESSIONS = 1000
RETENTION_S = 30 * 86400.0
"""Ended Cessions are deleted after this time, or when there are more than MAX_ENDED_CESSIONS."""


def align_runtimes(
    snapshot: Snapshot, asked: Collection[str], *, only_asked_back: bool = False
) -> Iterator[RequestSize]:
    """Runtimes are asked for the size that their Job has. Jobs in `asked`, by uid, are left out:
    they were asked for another size on purpose. `only_asked_back`: only those whose last request
    came from a Cession."""
    for job in snapshot.elastic:
        if job.job_uid not in asked and _has_other_size(job):
            if only_asked_back and not (job.runtime and job.runtime.cession):
                continue
            yield request_size(job, job.parallelism)


def _has_other_size(job: AdmittedWorkload) -> bool:
    if not job.allowed_sizes or not job.addresses or job.runtime is None:
        return False
    return job.runtime.wanted != job.parallelism


def start_small(snapshot: Snapshot) -> Iterator[ResizeJob]:
    """A job that grew before it was stopped would wait for room for all its pods, and its team's
    own quota may be too small for them. Like a new job it starts with the fewest, and grows. It
    keeps its place: Kueue changes the counts of its Workload (pkg/workloadslicing,
    EnsureWorkloadSlices)."""
    for waiting in snapshot.waiting_jobs:
        size = waiting.smallest_size
        why = "it starts at its smallest size"
        yield ResizeJob(waiting.job, waiting.uid, waiting.version, size, shrinks=False, why=why)


def delete_ended(snapshot: Snapshot, now: float) -> Iterator[DeleteCession]:
    ended = [cession for cession in snapshot.cessions if cession.ended]
    for newer, cession in enumerate(reversed(ended)):
        if newer >= MAX_ENDED_CESSIONS or now - cession.metadata.created > RETENTION_S:
            yield DeleteCession(cession.metadata.name, cession.metadata.uid)
