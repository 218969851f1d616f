"""PURE. Which elastic job grows into quota that its team owns and that others borrow.

A growth can only claim once its scale-up slice is pending. So the job's size is raised first, if
others could release what it lacks. The slice is a pending Workload like any other then, and gets a
Cession.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator

from cede.api.objects import rfc3339
from cede.api.policy import PolicySpec
from cede.api.resources import Resources
from scheduler.actions import ResizeJob, resize
from scheduler.preemption.preemption_plan import PreemptionPlan
from scheduler.preemption.preemptors import ClaimKind, Preemptor
from scheduler.quota.pod_sets import PodSetRequest
from scheduler.resizing.growth import growable, places, preferred_order, uses_none_of
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload

Choose = Callable[[Preemptor], PreemptionPlan]


def claim_growth(
    snapshot: Snapshot,
    policy: PolicySpec,
    now: float,
    choose: Choose,
    *,
    promised: Collection[str] = (),
    busy_queues: Collection[str] = (),
    paused: Collection[str] = (),
) -> Iterator[ResizeJob]:
    """At most one job grows. The others of its team and flavor wait until its Cession has ended.

    `choose` plans for a preemptor. `promised` are flavors of open Cessions, `busy_queues` those of
    their preemptors, `paused` the uids of jobs whose last claims failed.
    """
    growing = [job for job in snapshot.elastic if job.is_growing]
    taken = {place for job in growing for place in places(snapshot.quota, job)}
    jobs = [
        job
        for job in growable(snapshot, policy, now)
        if job.queue not in busy_queues
        and job.job_uid not in paused
        and uses_none_of(job, promised)
        and not taken & places(snapshot.quota, job)
    ]
    for job in preferred_order(snapshot, jobs):
        size = _size_to_claim(snapshot, job, now, choose)
        if size > job.size:
            pods = size - job.size
            why = f"its team owns quota for {pods} more pods that others borrow"
            yield resize(job, size, why, shrinks=False)
            return


def _size_to_claim(snapshot: Snapshot, job: AdmittedWorkload, now: float, choose: Choose) -> int:
    """The largest size within the team's own quota for which others can release what is missing;
    the present size if there is none."""
    first = bisect_right(job.allowed_sizes, job.size)
    last = bisect_right(job.allowed_sizes, job.desired_size)
    options = [
        size
        for size in job.allowed_sizes[first:last]
        if snapshot.quota.owns_with(job.queue, job.quota_for(size - job.size))
    ]
    # if all can be released, so can less: the first size that cannot is where the search ends
    low, high = 0, len(options)
    while low < high:
        middle = (low + high + 1) // 2
        preemptor = _preemptor(snapshot, job, options[middle - 1], now)
        if preemptor is None or choose(preemptor).targets:
            low = middle
        else:
            high = middle - 1
    if not low or _preemptor(snapshot, job, options[low - 1], now) is None:
        # it fits, so it needs no claim
        return job.size
    return options[low - 1]


def _preemptor(
    snapshot: Snapshot, job: AdmittedWorkload, size: int, now: float
) -> Preemptor | None:
    """The growth as the scale-up slice will ask for it; None if nothing is missing."""
    request = job.quota_for(size - job.size)
    missing = snapshot.quota.missing(job.queue, request)
    if not missing:
        return None
    per_pod = {resource: amount for (_, resource), amount in job.per_pod.items() if amount}
    pod_set = PodSetRequest(count=size - job.size, per_pod=Resources(per_pod))
    workload = PendingWorkload(
        key=job.key,
        uid="",
        queue=job.queue,
        priority=job.priority,
        created=rfc3339(now),
        job=job.job,
        job_uid=job.job_uid,
        is_scale_up=True,
        pod_sets=(pod_set,),
        queued_at=now,
    )
    return Preemptor(workload, request, missing, kind=ClaimKind.GROWTH)
