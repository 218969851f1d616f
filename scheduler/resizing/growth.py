"""PURE. Which jobs grow into idle quota."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from cede.api import sizes
from cede.api.objects import unix
from cede.api.policy import PolicySpec
from cede.api.resources import FlavorResource, Quota
from elastic_runtime.contract import State
from scheduler.actions import ResizeJob, resize
from scheduler.quota.assignments import assign, assignments
from scheduler.quota.cohort import CohortQuota
from scheduler.resizing.cooldown import jobs_in_cooldown
from scheduler.snapshot.node_room import Placement
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkloads

SLICE_TIMEOUT_S = 5.0
"""A scale-up slice that is not admitted by then is withdrawn, and its job waits for the cooldown.
If it were preempted meanwhile, its pods would run on without quota (Kueue 0.19.2)."""

CohortResource = tuple[str, FlavorResource]
"""A Cohort (for a queue without one, the queue) and a resource of one of its flavors."""
Place = tuple[str, str]
"""A Cohort (for a queue without one, the queue) and a flavor of it."""


def grow(
    snapshot: Snapshot,
    policy: PolicySpec,
    now: float,
    *,
    promised: Collection[str] = (),
    claims: Collection[str] = (),
) -> Iterator[ResizeJob]:
    """Jobs grow into idle quota that has nodes, in each flavor one after the other.

    Kueue 0.19.2 admits too much if two slices of one flavor meet in one cycle. No job grows in
    the `promised` flavors: what is idle there was released for a preemptor. A slice whose uid is
    among the `claims` waits for an open Cession, and is not withdrawn. A slice that Cede did not
    ask for is withdrawn too.
    """
    growing = [job for job in snapshot.elastic if job.is_growing]
    growing += _grown_by_others(snapshot)
    for job in growing:
        if _slice_timed_out(snapshot, job, now, claims):
            why = f"Kueue has not admitted its growth for {SLICE_TIMEOUT_S:.0f} s"
            yield resize(job, job.granted, why, shrinks=True)
    taken = {place for job in growing for place in places(snapshot.quota, job)}
    jobs = [job for job in growable(snapshot, policy, now) if uses_none_of(job, promised)]
    wanted: set[CohortResource] | None = None
    placement = Placement(snapshot.nodes, policy.instanceTypes)
    for job in preferred_order(snapshot, jobs):
        own = places(snapshot.quota, job)
        if taken & own:
            continue
        size = largest_size(snapshot, placement, job)
        if size == job.size:
            continue
        # most often nothing is idle, so it does not matter what is wanted
        wanted = wanted_by_pending(snapshot) if wanted is None else wanted
        if not wanted & keys_of(snapshot.quota, job):
            taken |= own
            why = f"quota for {size - job.size} more pods is idle"
            yield resize(job, size, why, shrinks=False)


def _grown_by_others(snapshot: Snapshot) -> Iterator[AdmittedWorkload]:
    """Jobs of teams that Kueue resizes, and that have no `cede.dev/sizes`. No member makes one, but
    a namespace may have it when it becomes a team's."""
    for identity in snapshot.scale_ups:
        job = snapshot.find_job(identity)
        if job is None or job.allowed_sizes or not job.can_be_set_back:
            continue
        if snapshot.quota.queues[job.queue].managed:
            yield job


def _slice_timed_out(
    snapshot: Snapshot, job: AdmittedWorkload, now: float, claims: Collection[str]
) -> bool:
    slices = snapshot.scale_ups.get(job.job_uid, ())
    if any(pending.uid in claims for pending in slices):
        return False
    if not slices:
        return job.job_uid in snapshot.overdue
    return now - max(unix(pending.created) for pending in slices) > SLICE_TIMEOUT_S


# --- who may grow ---------------------------------------------------------------------------------
def growable(snapshot: Snapshot, policy: PolicySpec, now: float) -> list[AdmittedWorkload]:
    """The jobs that train on all their pods and want more, and are not in their cooldown."""
    jobs = [
        job
        for job in snapshot.elastic
        if job.size < job.desired_size
        and snapshot.quota.queues[job.queue].managed
        and _trains_on_all_pods(job)
    ]
    cooling = jobs_in_cooldown(snapshot, policy.preemption.growCooldownSeconds, now)
    return [job for job in jobs if job.identity not in cooling]


def uses_none_of(job: AdmittedWorkload, promised: Collection[str]) -> bool:
    """Whether the job uses none of the promised flavors."""
    return not any(flavor in promised for flavor, _ in job.per_pod)


def _trains_on_all_pods(job: AdmittedWorkload) -> bool:
    """A job that is still starting would start more slowly with more pods. A job whose runtime does
    not answer may not be elastic at all."""
    trains = (
        job.runtime is not None
        and job.runtime.state == State.TRAINING
        and job.runtime.size == job.size
    )
    is_staying = job.active and not job.is_evicting
    return trains and is_staying and bool(job.allowed_sizes) and job.parallelism == job.size


def preferred_order(snapshot: Snapshot, jobs: Iterable[AdmittedWorkload]) -> list[AdmittedWorkload]:
    """The queue that borrows the smallest share first, then the highest priority, then the
    oldest."""
    names = {job.queue for job in jobs}
    shares = {name: snapshot.quota.share(name) for name in names}
    return sorted(
        jobs, key=lambda job: (shares[job.queue], -job.priority, job.reserved_since, job.key)
    )


# --- where ----------------------------------------------------------------------------------------
def places(quota: CohortQuota, job: AdmittedWorkload) -> set[Place]:
    """Where its growth and another job's would use the same quota."""
    return {(cohort, flavor) for cohort, (flavor, _) in keys_of(quota, job)}


def keys_of(quota: CohortQuota, job: AdmittedWorkload) -> set[CohortResource]:
    """What a pod of it uses."""
    cohort = _cohort(quota, job.queue)
    return {(cohort, key) for key, amount in job.per_pod.items() if amount}


def _cohort(quota: CohortQuota, queue: str) -> str:
    return quota.queues[queue].cohort or queue


def wanted_by_pending(snapshot: Snapshot) -> set[CohortResource]:
    """The quota on which a pending Workload starts soon: it fits, so Kueue admits it in a moment,
    or its team owns the quota, so that it is released for it.

    Another Workload for which too little is idle blocks nothing: what it waits for may never come
    free. Nor does one that fits and that Kueue passes over. Scale-up slices count too, such as that
    of a RayCluster, which nobody withdraws.
    """
    quota = snapshot.quota
    pending = snapshot.pending
    if snapshot.overdue:
        pending = PendingWorkloads(w for w in pending if w.uid not in snapshot.overdue)
    wanted = set[CohortResource]()
    for workload in pending.first_of_each_kind:
        if workload.ineligible:
            continue
        queue = quota.queues[workload.queue]
        requests = assignments(workload.pod_sets, queue)
        owned = (request for request in requests if quota.owns_with(queue.name, request))
        assigned = assign(workload.pod_sets, queue.name, quota) or Counter()
        for request in (assigned, *owned):
            keys = (key for key, amount in request.items() if amount)
            wanted |= {(_cohort(quota, queue.name), key) for key in keys}
    return wanted


# --- how far --------------------------------------------------------------------------------------
def largest_size(snapshot: Snapshot, placement: Placement, job: AdmittedWorkload) -> int:
    """The largest allowed size, at most the desired one, for which quota and nodes have room now;
    the present size if there is none."""
    pods = pods_in_quota(snapshot.quota, job.queue, job.per_pod)
    if pods > 0:
        pods = min(pods, placement.count_pods(job.per_pod))
    limit = min(job.desired_size, sizes.MAX_SIZE, job.size + pods)
    return max(job.size, sizes.largest_within(job.allowed_sizes, limit) or 0)


def pods_in_quota(quota: CohortQuota, queue: str, per_pod: Quota) -> int:
    counts = [quota.available(queue, key) // used for key, used in per_pod.items() if used > 0]
    return max(0, min(counts, default=0))
