"""PURE. Which jobs shrink because more quota is in use than exists."""

from collections.abc import Collection, Iterator

from cede.api import sizes
from cede.api.policy import Preemption
from cede.api.resources import Quota
from scheduler.actions import RequestSize, ResizeJob, request_size, shrink
from scheduler.preemption.candidates import shrink_order
from scheduler.quota.working_quota import WorkingQuota
from scheduler.server_actions import DrainPod
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload

REQUEST_NAME = "excess"
"""What such a request to a runtime carries in place of a Cession's name."""


def shrink_overuse(
    snapshot: Snapshot, targets: Collection[str], settings: Preemption, now: float
) -> Iterator[RequestSize | ResizeJob | DrainPod]:
    """Shrink borrowing jobs while more quota is in use than exists: the team that is furthest over
    its share first, in it the lowest class, then the youngest.

    It happens when Kueue 0.19.2 admits two Workloads for the same quota in one cycle, or when an
    admin lowers a quota. A lower borrowing limit shrinks nobody. A job with a running pod is asked
    first, also if it is silent. It is resized once it has ceded, or when its grace has passed since
    this scheduler first asked it. Jobs in `targets`, by uid, are left to their Cession. Nobody
    shrinks while Kueue's own count differs: what is too much may be gone already.
    """
    quota = WorkingQuota(snapshot.quota)
    over = {name for name in quota.queues if _is_over(quota, name)}
    if not over:
        return
    jobs = [
        job
        for job in snapshot.admitted
        if job.queue in over
        and job.sizes_now
        and job.active
        and not job.is_evicting
        and job.size > job.smallest_size
        and job.identity not in targets
    ]
    shares = {name: quota.share(name) for name in over}
    jobs.sort(key=shrink_order)
    # a stable sort: in a queue, the order of the jobs stays
    jobs.sort(key=lambda job: shares[job.queue], reverse=True)
    for job in jobs:
        overuse = _overuse(quota, job)
        if snapshot.disagreement & overuse.keys():
            continue
        is_managed = quota.queues[job.queue].managed
        if not overuse or not is_managed or not quota.borrows(job.queue, overuse):
            continue
        pods = max(-(-amount // job.per_pod[key]) for key, amount in overuse.items())
        size = sizes.largest_within(job.sizes_now, job.size - pods) or job.smallest_size
        quota.remove(job.queue, job.quota_for(job.size - size))
        grace_s = settings.grace_s(job.grace_s)
        yield _shrink(job, size, grace_s, now)


def _is_over(quota: WorkingQuota, queue: str) -> bool:
    return any(quota.excess(queue, key) for key in quota.queues[queue].usage)


def _overuse(quota: WorkingQuota, job: AdmittedWorkload) -> Quota:
    """How much is in use beyond the quota, of what the job uses."""
    excess = {key: quota.excess(job.queue, key) for key, used in job.per_pod.items() if used}
    return +Quota(excess)


def _shrink(
    job: AdmittedWorkload, size: int, grace_s: float, now: float
) -> RequestSize | ResizeJob | DrainPod:
    asked_s = now - job.observed.asked_at if job.observed.asked_for == REQUEST_NAME else 0.0
    if job.addresses and not job.has_ceded(size) and asked_s < grace_s:
        left_s = grace_s - max(0.0, asked_s)
        return request_size(job, size, REQUEST_NAME, left_s)
    return shrink(job, size, "more quota is in use than exists")
