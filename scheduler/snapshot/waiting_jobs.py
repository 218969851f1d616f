"""PURE. Elastic Jobs that wait for quota with more pods than they need to start: they had grown
before they were stopped."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cede.api import names
from cede.api.kueue import Job
from cede.api.objects import Key
from scheduler.snapshot.read_workloads import allowed_sizes
from scheduler.snapshot.workloads import PendingWorkload


@dataclass(frozen=True, slots=True)
class WaitingJob:
    job: Key
    uid: str
    version: str
    smallest_size: int


def read_waiting(jobs: Iterable[Job], pending: Iterable[PendingWorkload]) -> tuple[WaitingJob, ...]:
    """Of the Jobs whose Workload is in `pending`, and replaces none."""
    larger = {waiting.uid: waiting for waiting in _larger(jobs)}
    if not larger:
        return ()
    identities = (workload.identity for workload in pending if not workload.is_scale_up)
    return tuple(larger[identity] for identity in identities if identity in larger)


def _larger(jobs: Iterable[Job]) -> Iterator[WaitingJob]:
    for job in jobs:
        # nearly all end here: there may be thousands
        if not job.spec.suspend or names.SIZES not in job.metadata.annotations:
            continue
        sizes = allowed_sizes(job)
        if sizes and job.spec.parallelism > sizes[0]:
            meta = job.metadata
            yield WaitingJob(meta.key, meta.uid, meta.resourceVersion, sizes[0])
