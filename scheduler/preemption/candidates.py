"""PURE. Which jobs may give for a preemptor, and in which order the jobs of one team give.

Nothing here depends on what a job or its user may change while it runs. A job that reports no save,
or none in time, is not treated better than one that does.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cede.api.objects import Key
from cede.api.resources import Quota
from scheduler.preemption.job_history import JobHistory
from scheduler.preemption.preemptors import ClaimKind, Preemptor
from scheduler.quota.working_quota import WorkingQuota
from scheduler.snapshot.workloads import AdmittedWorkload

RESTART_S = 60.0
"""What every stop costs: the pods start again, and the job reads its newest checkpoint."""
UNSAVED_LIMIT_S = 600.0
"""The most work that a job which cannot be asked to save counts as unsaved. Who saves less often
than this is not spared for it."""

Order = Callable[[AdmittedWorkload], tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The jobs that may give."""

    willing: tuple[AdmittedWorkload, ...]
    # to be taken only if the willing are not enough: they have just started, or were stopped often
    reluctant: tuple[AdmittedWorkload, ...] = ()


def find_candidates(
    preemptor: Preemptor,
    jobs: Mapping[str, Sequence[AdmittedWorkload]],
    quota: WorkingQuota,
    history: JobHistory,
    now: float,
    min_runtime_s: float,
) -> Candidates:
    """Of `jobs`, by queue, those that Kueue itself might preempt: of its own team those of a lower
    class, of other teams those whose queue borrows (Kueue: findCandidates in
    pkg/scheduler/preemption).

    A job that has run for less than `min_runtime_s`, or that was stopped too often in the last
    hour, is left alone. One exception: an owner that has waited for `min_runtime_s` takes even
    these jobs from other teams, after all others. Otherwise a stream of short jobs would keep its
    quota.
    """
    owner_waits = (
        preemptor.kind is not ClaimKind.FAIR_SHARE
        and now - preemptor.workload.queued_at >= min_runtime_s
    )
    willing = list[AdmittedWorkload]()
    reluctant = list[AdmittedWorkload]()
    for job in _eligible(preemptor, jobs, quota, history):
        # far in the future: a clock was set back, and the job is older than it looks
        is_new = -min_runtime_s <= now - _start(job) < min_runtime_s
        if not is_new and not history.is_over_budget(job.identity):
            willing.append(job)
        elif owner_waits and is_foreign(preemptor, job):
            reluctant.append(job)
    return Candidates(tuple(willing), tuple(reluctant))


def is_foreign(preemptor: Preemptor, job: AdmittedWorkload) -> bool:
    """Whether the job belongs to another queue, so to another team."""
    return job.queue != preemptor.workload.queue


def _eligible(
    preemptor: Preemptor,
    jobs: Mapping[str, Sequence[AdmittedWorkload]],
    quota: WorkingQuota,
    history: JobHistory,
) -> Iterator[AdmittedWorkload]:
    spared = history.stopped_for.get(preemptor.workload.identity, frozenset[str | Key]())
    for job in _of_giving_queues(preemptor, jobs, quota):
        is_spared = job.uid in spared or job.job in spared
        may_give = job.active and not job.is_evicting and not is_spared
        if may_give and any(job.usage[key] for key in preemptor.missing):
            yield job


def _of_giving_queues(
    preemptor: Preemptor, jobs: Mapping[str, Sequence[AdmittedWorkload]], quota: WorkingQuota
) -> Iterator[AdmittedWorkload]:
    own = preemptor.workload.queue
    if quota.queues[own].preempts_own_jobs:
        priority = preemptor.workload.priority
        yield from (job for job in jobs.get(own, ()) if job.priority < priority)
    for name in _giving_queues(preemptor, quota):
        yield from jobs.get(name, ())


def _giving_queues(preemptor: Preemptor, quota: WorkingQuota) -> Iterator[str]:
    """Other teams' queues that borrow what is missing."""
    own = quota.queues[preemptor.workload.queue]
    for queue in quota.queues.values():
        is_rival = queue.name != own.name and queue.cohort == own.cohort != ""
        if is_rival and queue.managed and quota.borrows(queue.name, preemptor.missing):
            yield queue.name


# --- the order inside a team ----------------------------------------------------------------------
def shrink_order(job: AdmittedWorkload) -> tuple[object, ...]:
    """The lowest class first, then the youngest."""
    return job.priority, -_start(job), job.key


def stop_order(preemptor: Preemptor, now: float) -> Order:
    """The lowest class first; in a class, jobs that are asked to save before jobs that cannot be;
    then the least that a stop would lose; then the youngest."""
    return lambda job: (
        job.priority,
        not job.allowed_sizes,
        lost_if_stopped(job, preemptor.missing, now),
        -_start(job),
        job.key,
    )


def lost_if_stopped(job: AdmittedWorkload, missing: Quota, now: float) -> float:
    """What the stop would lose: capacity of the kind that is missing × seconds.

    A job that can be asked saves first, whatever it has reported until then. What the others have
    saved is not known, so it is the time since their start, up to a limit. No report of a job makes
    this larger: if a report did, the job that lies would be spared.
    """
    ran_s = max(0.0, now - _start(job))
    unsaved_s = 0.0 if job.allowed_sizes else min(ran_s, UNSAVED_LIMIT_S)
    return weight(job, missing) * (RESTART_S + unsaved_s)


def _start(job: AdmittedWorkload) -> float:
    """Unix seconds. Growth is no new start."""
    return job.started or job.reserved_since


def weight(job: AdmittedWorkload, missing: Quota) -> float:
    """How often the job holds what is missing. Not its number of pods: one pod of eight
    accelerators weighs as much as eight pods of one."""
    return sum(job.usage[key] / amount for key, amount in missing.items() if amount)


def by_queue(jobs: Iterable[AdmittedWorkload], order: Order) -> dict[str, list[AdmittedWorkload]]:
    """The jobs of each queue, whoever gives first at the end of its list."""
    queues = dict[str, list[AdmittedWorkload]]()
    for job in sorted(jobs, key=order, reverse=True):
        queues.setdefault(job.queue, []).append(job)
    return queues
