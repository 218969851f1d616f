"""PURE. Which job grows into idle quota."""

from collections.abc import Iterable, Iterator

from cede.api import sizes
from cede.api.objects import unix
from cede.api.resources import Quota, Resources
from elastic_runtime.contract import State
from scheduler.actions import ResizeJob
from scheduler.cohort import CohortQuota, assignments
from scheduler.free_capacity import NodeRoom
from scheduler.snapshot import Snapshot
from scheduler.workloads import AdmittedWorkload, PendingWorkload

SLICE_TIMEOUT_S = 5.0
"""A scale-up slice that is not admitted by then is withdrawn. If its job were preempted meanwhile,
the job's pods would run on without quota (Kueue 0.19.2)."""


def grow(
    snapshot: Snapshot, now: float, cooldown_s: float, *, capacity_is_promised: bool
) -> Iterator[ResizeJob]:
    """At most one job grows at a time: Kueue 0.19.2 admits too much if two slices meet in one
    cycle. None grows while released capacity is promised to a preemptor.

    A job that shrank grows again after `cooldown_s`.
    """
    growing = [job for job in snapshot.admitted if job.is_growing]
    for job in growing:
        if _slice_timed_out(snapshot, job, now):
            yield _resize(job, job.size, "the quota it would grow into is no longer idle")
    if growing or capacity_is_promised:
        return
    jobs = [job for job in snapshot.admitted if _can_grow(snapshot, job, now, cooldown_s)]
    for job in _preferred_order(snapshot, jobs):
        if any(_competes(snapshot.quota, pending, job) for pending in snapshot.pending):
            continue
        size = largest_size(snapshot, job)
        if size > job.size:
            yield _resize(job, size, f"quota for {size - job.size} more pods is idle")
            return


def _resize(job: AdmittedWorkload, size: int, why: str) -> ResizeJob:
    return ResizeJob(
        job=job.job,
        job_uid=job.job_uid,
        version=job.job_version,
        size=size,
        shrinks=False,
        why=why,
    )


def _slice_timed_out(snapshot: Snapshot, job: AdmittedWorkload, now: float) -> bool:
    created = [
        unix(pending.created)
        for pending in snapshot.pending
        if pending.is_scale_up and pending.job_uid == job.job_uid
    ]
    return bool(created) and now - max(created) > SLICE_TIMEOUT_S


def _can_grow(snapshot: Snapshot, job: AdmittedWorkload, now: float, cooldown_s: float) -> bool:
    return (
        snapshot.quota.queues[job.queue].managed
        and _trains_on_all_pods(job)
        and job.size < job.desired_size
        and now - job.shrunk_at >= cooldown_s
    )


def _trains_on_all_pods(job: AdmittedWorkload) -> bool:
    """A job that is still starting would start more slowly with more pods. A job whose runtime does
    not answer may not be elastic at all."""
    trains = (
        job.runtime is not None
        and job.runtime.state == State.TRAINING
        and job.runtime.size == job.size
    )
    return trains and bool(job.allowed_sizes) and job.active and job.parallelism == job.size


def _preferred_order(
    snapshot: Snapshot, jobs: Iterable[AdmittedWorkload]
) -> list[AdmittedWorkload]:
    """The queue that borrows the smallest share first, then the highest priority, then the
    oldest."""
    return sorted(
        jobs,
        key=lambda job: (
            snapshot.quota.dominant_share(job.queue),
            -job.priority,
            job.reserved_since,
            job.key,
        ),
    )


def _competes(quota: CohortQuota, pending: PendingWorkload, job: AdmittedWorkload) -> bool:
    """Whether the pending Workload requests a resource that the job uses, and could fit if the
    whole Cohort were idle."""
    if not pending.active or pending.is_scale_up or pending.queue not in quota.queues:
        return False
    queue = quota.queues[pending.queue]
    if queue.cohort != quota.queues[job.queue].cohort:
        return False
    return any(
        _can_ever_fit(quota, queue.name, request) and _requests_any_of(request, job.per_pod)
        for request in assignments(pending.requested, queue)
    )


def _requests_any_of(request: Quota, keys: Iterable[tuple[str, str]]) -> bool:
    return any(request[key] for key in keys)


def _can_ever_fit(quota: CohortQuota, queue: str, request: Quota) -> bool:
    return all(amount <= quota.potential(queue, key) for key, amount in request.items())


def largest_size(snapshot: Snapshot, job: AdmittedWorkload) -> int:
    """The largest allowed size, at most the desired one, for which quota and nodes have room now;
    the present size if there is none."""
    limit = min(job.desired_size, sizes.MAX_SIZE)
    options = [size for size in job.allowed_sizes if job.size < size <= limit]
    fitting = [size for size in options if _has_room(snapshot, job, size - job.size)]
    return max(fitting, default=job.size)


def _has_room(snapshot: Snapshot, job: AdmittedWorkload, pods: int) -> bool:
    return snapshot.quota.fits(job.queue, job.quota_for(pods)) and _fit_on_nodes(
        snapshot.nodes, job.per_pod, pods
    )


def _fit_on_nodes(nodes: Iterable[NodeRoom], per_pod: Quota, pods: int) -> bool:
    """Whether this number of additional pods fits on the nodes, whatever their flavor: Kueue keeps
    a growing job on the flavor that it has."""
    requested = {resource: amount for (_, resource), amount in per_pod.items() if amount > 0}
    return sum(_pods_on_node(node.free, requested, pods) for node in nodes) >= pods


def _pods_on_node(free: Resources, requested: dict[str, int], limit: int) -> int:
    counts = [max(0, free[resource]) // amount for resource, amount in requested.items()]
    return min(counts, default=limit)
