"""PURE. Which jobs shrink because more quota is in use than exists."""

from collections.abc import Collection, Iterator

from cede.api import sizes
from cede.api.resources import Quota
from scheduler.actions import RequestSize, ResizeJob
from scheduler.cohort import CohortQuota
from scheduler.snapshot import Snapshot
from scheduler.workloads import AdmittedWorkload

REQUEST_NAME = "excess"
"""What such a request to a runtime carries in place of a Cession's name."""


def shrink_overuse(
    snapshot: Snapshot, targets: Collection[str]
) -> Iterator[RequestSize | ResizeJob]:
    """Shrink borrowing jobs while more quota is in use than exists: the lowest priority first, then
    the youngest.

    It happens when Kueue 0.19.2 admits two Workloads for the same quota in one cycle, or when an
    admin lowers a quota. A job whose runtime answers is asked first, and resized once it has ceded.
    Jobs that are targets of an open Cession, by uid, are left to it. Nobody shrinks while Kueue's
    own count differs: what is too much may be gone already.
    """
    quota = snapshot.quota
    over = {name for name in quota.queues if _is_over(quota, name)}
    jobs = [
        job
        for job in snapshot.admitted
        if job.queue in over
        and job.allowed_sizes
        and job.active
        and job.size > job.smallest_size
        and job.identity not in targets
    ]
    for job in sorted(jobs, key=lambda job: (job.priority, -job.reserved_since, job.key)):
        queue = quota.queues[job.queue]
        overuse = _overuse(quota, job)
        if snapshot.disagreement & overuse.keys():
            continue
        if not overuse or not queue.managed or not queue.borrows(overuse):
            continue
        pods = max(-(-amount // job.per_pod[key]) for key, amount in overuse.items())
        size = sizes.largest_within(job.allowed_sizes, job.size - pods) or job.smallest_size
        quota = quota.after_removing(job.queue, job.quota_for(job.size - size))
        yield _shrink(job, size)


def _is_over(quota: CohortQuota, queue: str) -> bool:
    return any(quota.available(queue, key) < 0 for key in quota.queues[queue].usage)


def _overuse(quota: CohortQuota, job: AdmittedWorkload) -> Quota:
    """How much is in use beyond the quota, of what the job uses."""
    available = {key: quota.available(job.queue, key) for key, used in job.per_pod.items() if used}
    return Quota({key: -amount for key, amount in available.items() if amount < 0})


def _shrink(job: AdmittedWorkload, size: int) -> RequestSize | ResizeJob:
    runtime = job.runtime
    has_ceded = runtime is not None and runtime.wanted == size and runtime.ceded(size)
    if runtime and job.address and not has_ceded:
        return RequestSize(job.job, job.job_uid, job.address, size, REQUEST_NAME)
    return ResizeJob(
        job=job.job,
        job_uid=job.job_uid,
        version=job.job_version,
        size=size,
        shrinks=True,
        why="more quota is in use than exists",
    )
