"""PURE. Which jobs shrink or stop for a preemptor: all that it lacks is released, or nothing is.

1. Candidates are the jobs that Kueue itself might preempt for it: jobs of queues that borrow, and
   jobs of its own queue with lower priority.
2. Jobs shrink, one after the other, until the preemptor fits. First no queue is shrunk below its
   nominal quota; if that is not enough, a borrowing queue may end below it.
3. If shrinking is not enough, jobs are stopped as well, those with the least unsaved work first.
4. From the last target to the first, each is given back what turned out not to be needed.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cede.api.reasons import CessionReason
from cede.api.resources import Quota, describe_amounts
from scheduler.cohort import CohortQuota
from scheduler.preemptors import Preemptor
from scheduler.workloads import AdmittedWorkload


@dataclass(frozen=True, slots=True)
class Target:
    """A job that shrinks to a smaller size; 0 stops it."""

    job: AdmittedWorkload
    size: int

    @property
    def stops(self) -> bool:
        return self.size == 0

    @property
    def released(self) -> Quota:
        if self.stops:
            return Counter(self.job.usage)
        return self.job.quota_for(self.job.size - self.size)


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """The targets of one preemptor; none if they could not release enough. `why` explains it."""

    preemptor: Preemptor
    targets: tuple[Target, ...]
    why: str

    @property
    def reason(self) -> CessionReason:
        """Of a plan that has targets."""
        return _reason(self.preemptor, self.targets)


Targets = dict[str, Target]
"""By the Workload's uid, in the order in which they were chosen."""


def choose_targets(
    preemptor: Preemptor,
    quota: CohortQuota,
    admitted: Iterable[AdmittedWorkload],
    now: float,
    min_runtime_s: float,
) -> PreemptionPlan:
    """Jobs that have run for less than `min_runtime_s` are left alone."""
    candidates = [
        job
        for job in admitted
        if _is_candidate(preemptor, quota, job)
        and job.active
        and now - job.started >= min_runtime_s
    ]
    targets = _shrink(preemptor, quota, candidates, allow_below_nominal=False)
    if not _is_enough(preemptor, quota, targets):
        targets = _shrink(preemptor, quota, candidates, allow_below_nominal=True)
    if not _is_enough(preemptor, quota, targets):
        targets = _stop(preemptor, quota, candidates, targets)
    if not _is_enough(preemptor, quota, targets):
        return PreemptionPlan(preemptor, (), _why_none(preemptor, quota, targets))
    chosen = tuple(_without_surplus(preemptor, quota, targets).values())
    return PreemptionPlan(preemptor, chosen, _why(preemptor, chosen))


# --- who may be a target --------------------------------------------------------------------------
def _is_foreign(preemptor: Preemptor, job: AdmittedWorkload) -> bool:
    """Whether the job belongs to another queue, so to another team."""
    return job.queue != preemptor.workload.queue


def _is_candidate(preemptor: Preemptor, quota: CohortQuota, job: AdmittedWorkload) -> bool:
    queue = quota.queues[job.queue]
    if not queue.managed or not any(job.usage[key] for key in preemptor.missing):
        return False
    if not _is_foreign(preemptor, job):
        return queue.preempts_own_jobs and job.priority < preemptor.workload.priority
    own_cohort = quota.queues[preemptor.workload.queue].cohort
    return queue.cohort == own_cohort != "" and queue.borrows(preemptor.missing)


def _may_still_give(preemptor: Preemptor, left: CohortQuota, job: AdmittedWorkload) -> bool:
    """Whether the job is still a candidate once others have released capacity.

    A queue that is back within its nominal quota owes nothing more. No other queue owes anything
    to a preemptor that would itself borrow.
    """
    if not _is_foreign(preemptor, job):
        return True
    return left.queues[job.queue].borrows(preemptor.missing) and _is_within_own(preemptor, left)


def _is_within_own(preemptor: Preemptor, quota: CohortQuota) -> bool:
    return quota.queues[preemptor.workload.queue].owns_with(preemptor.request)


# --- what is left ---------------------------------------------------------------------------------
def _after(quota: CohortQuota, targets: Targets) -> CohortQuota:
    """The quota once all targets have released their capacity."""
    for target in targets.values():
        quota = quota.after_removing(target.job.queue, target.released)
    return quota


def _fits(preemptor: Preemptor, quota: CohortQuota) -> bool:
    return quota.fits(preemptor.workload.queue, preemptor.request)


def _is_enough(preemptor: Preemptor, quota: CohortQuota, targets: Targets) -> bool:
    """Whether the preemptor fits, and takes from other teams only within its own quota."""
    left = _after(quota, targets)
    takes_from_others = any(_is_foreign(preemptor, target.job) for target in targets.values())
    rightful = _is_within_own(preemptor, left) or not takes_from_others
    return rightful and _fits(preemptor, left)


# --- shrink, then stop ----------------------------------------------------------------------------
def _shrink(
    preemptor: Preemptor,
    quota: CohortQuota,
    candidates: Iterable[AdmittedWorkload],
    *,
    allow_below_nominal: bool,
) -> Targets:
    """Shrink one job after the other, each by no more than is needed: the lowest priority first,
    then the youngest."""
    jobs = [job for job in candidates if job.allowed_sizes and job.size > job.smallest_size]
    jobs.sort(
        key=lambda job: (
            preemptor.exceeds_nominal and _is_foreign(preemptor, job),
            job.priority,
            -job.reserved_since,
            job.key,
        )
    )
    targets: Targets = {}
    for job in jobs:
        left = _after(quota, targets)
        if _fits(preemptor, left):
            break
        if not _may_still_give(preemptor, left, job):
            continue
        options = [Target(job, size) for size in reversed(job.allowed_sizes) if size < job.size]
        if _is_foreign(preemptor, job) and not allow_below_nominal:
            options = [option for option in options if _keeps_nominal(preemptor, left, option)]
        if options:
            sufficient = (option for option in options if _fits_with(preemptor, left, option))
            targets[job.uid] = next(sufficient, options[-1])
    return targets


def _fits_with(preemptor: Preemptor, left: CohortQuota, target: Target) -> bool:
    return _fits(preemptor, left.after_removing(target.job.queue, target.released))


def _keeps_nominal(preemptor: Preemptor, left: CohortQuota, target: Target) -> bool:
    """Whether the target's queue still uses all of its nominal quota afterwards."""
    queue = left.after_removing(target.job.queue, target.released).queues[target.job.queue]
    return all(
        queue.usage[key] >= queue.quotas[key].nominal
        for key in preemptor.missing
        if key in queue.quotas and target.job.usage[key]
    )


def _stop(
    preemptor: Preemptor,
    quota: CohortQuota,
    candidates: Iterable[AdmittedWorkload],
    targets: Targets,
) -> Targets:
    """The shrinks, with jobs stopped in addition until it is enough: the least unsaved work first,
    then the lowest priority, then the youngest."""
    # a job with a pending scale-up slice is not stopped: its pods would run on without quota
    # (Kueue 0.19.2)
    jobs = [job for job in candidates if not job.is_growing]
    jobs.sort(
        key=lambda job: (
            preemptor.exceeds_nominal and _is_foreign(preemptor, job),
            job.unsaved_pod_seconds,
            job.priority,
            -job.reserved_since,
            job.key,
        )
    )
    for job in jobs:
        if _is_enough(preemptor, quota, targets):
            break
        others = {uid: target for uid, target in targets.items() if uid != job.uid}
        if _may_still_give(preemptor, _after(quota, others), job):
            targets = others | {job.uid: Target(job, 0)}
    return targets


def _without_surplus(preemptor: Preemptor, quota: CohortQuota, targets: Targets) -> Targets:
    """The last chosen first, each target is left out if the others are enough, or keeps the largest
    size that is enough."""
    for uid, target in reversed(list(targets.items())):
        others = {other: t for other, t in targets.items() if other != uid}
        if _is_enough(preemptor, quota, others):
            targets = others
            continue
        for size in reversed(target.job.allowed_sizes):
            larger = targets | {uid: Target(target.job, size)}
            if target.size < size < target.job.size and _is_enough(preemptor, quota, larger):
                targets = larger
                break
    return targets


# --- why ------------------------------------------------------------------------------------------
def _reason(preemptor: Preemptor, targets: Iterable[Target]) -> CessionReason:
    foreign = {_is_foreign(preemptor, target.job) for target in targets}
    if foreign == {True}:
        return CessionReason.RECLAIM_OWN_QUOTA
    if foreign == {False}:
        return CessionReason.PRIORITY_IN_TEAM
    return CessionReason.RECLAIM_AND_PRIORITY


CLAIMS = {
    CessionReason.RECLAIM_OWN_QUOTA: "reclaims its team's own quota",
    CessionReason.PRIORITY_IN_TEAM: "has priority over jobs of its team",
    CessionReason.RECLAIM_AND_PRIORITY: (
        "reclaims its team's own quota and has priority over jobs of its team"
    ),
}


def _why(preemptor: Preemptor, targets: Sequence[Target]) -> str:
    workload = preemptor.workload
    claim = CLAIMS[_reason(preemptor, targets)]
    changes = [
        f"{target.job.name} ({target.job.queue}) {_describe_change(target)}" for target in targets
    ]
    return (
        f"{workload.name} ({workload.queue}) {claim}: it lacks "
        f"{describe_amounts(preemptor.missing)}; {', '.join(changes)}"
    )


def _describe_change(target: Target) -> str:
    if target.stops:
        return "stops"
    return f"shrinks from {target.job.size} to {target.size}"


def _why_none(preemptor: Preemptor, quota: CohortQuota, targets: Targets) -> str:
    workload = preemptor.workload
    missing = _after(quota, targets).missing(workload.queue, preemptor.request)
    return (
        f"{workload.name} ({workload.queue}) stays pending: even without all jobs that it may "
        f"preempt, it would still lack {describe_amounts(missing or preemptor.missing)}"
    )
