"""PURE. What must hold whatever happened before: runtimes know the size of their Job, and old
records are deleted."""

from collections.abc import Collection, Iterator

from scheduler.actions import DeleteCession, RequestSize
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
            yield RequestSize(job.job, job.job_uid, job.address, job.parallelism)


def _has_other_size(job: AdmittedWorkload) -> bool:
    if not job.allowed_sizes or not job.address or job.runtime is None:
        return False
    return job.runtime.wanted != job.parallelism


def delete_ended(snapshot: Snapshot, now: float) -> Iterator[DeleteCession]:
    ended = [cession for cession in snapshot.cessions if cession.ended]
    for newer, cession in enumerate(reversed(ended)):
        if newer >= MAX_ENDED_CESSIONS or now - cession.metadata.created > RETENTION_S:
            yield DeleteCession(cession.metadata.name, cession.metadata.uid)
