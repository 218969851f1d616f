"""PURE. Which jobs may give for a preemptor, and in which order the jobs of one team give.

Nothing here depends on what a job or its user may change while it runs. A job that reports no save,
or none in time, is not treated better than one that does.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from cede.api.resources import FlavorResource, Quota
from scheduler.preemption.job_history import JobHistory
from scheduler.preemption.preemptors import ClaimKind, Preemptor
from scheduler.quota.cohort import NO_SHARE, Queue
from scheduler.quota.working_quota import WorkingQuota
from scheduler.snapshot.snapshot import Snapshot
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

    willing: Sequence[AdmittedWorkload] = ()
    # to be taken only if the willing are not enough: they have just started, or were stopped often
    reluctant: Sequence[AdmittedWorkload] = ()

    def hold(self, amounts: Quota) -> bool:
        """Whether they use so much, all of them together."""
        jobs = [*self.willing, *self.reluctant]
        return all(_used(jobs, key) >= amount for key, amount in amounts.items())


class CandidatePool:
    """The jobs of a snapshot, for one preemptor after another. Those of a queue are sorted out when
    they are first needed."""

    def __init__(
        self, snapshot: Snapshot, history: JobHistory, now: float, min_runtime_s: float
    ) -> None:
        self._quota = snapshot.quota
        self._history = history
        self._now = now
        self._min_runtime_s = min_runtime_s
        self._jobs = defaultdict[str, list[AdmittedWorkload]](list)
        for job in snapshot.admitted:
            if job.active and not job.is_evicting:
                self._jobs[job.queue].append(job)
        self._sorted_out = dict[str, Candidates]()
        # other queues owe nothing to anybody
        self._borrowing = [
            queue
            for queue in snapshot.quota.queues.values()
            if queue.managed and queue.cohort and queue.borrows(queue.usage)
        ]

    def find(self, preemptor: Preemptor) -> Candidates:
        """Those that Kueue itself might preempt: of its own team those of a lower class, of other
        teams those whose queue borrows (Kueue: findCandidates in pkg/scheduler/preemption).

        A job that has run for less than `min_runtime_s`, or that was stopped too often in the last
        hour, is left alone. One exception: an owner that has waited for `min_runtime_s` takes even
        these jobs from other teams, after all others. Otherwise a stream of short jobs would keep
        its quota.
        """
        own = self._quota.queues[preemptor.workload.queue]
        spared = self._history.stopped_for.get(preemptor.workload.identity, frozenset())
        keys = list(preemptor.missing)

        def may_give(job: AdmittedWorkload) -> bool:
            is_useful = any(job.usage[key] for key in keys)
            return is_useful and job.uid not in spared and job.job not in spared

        willing = list[AdmittedWorkload]()
        if own.preempts_own_jobs:
            priority = preemptor.workload.priority
            of_own = self._of_queue(own.name).willing
            willing += [job for job in of_own if job.priority < priority and may_give(job)]
        others = [self._of_queue(name) for name in self._giving_queues(preemptor, willing)]
        willing += [job for jobs in others for job in jobs.willing if may_give(job)]
        owner_waits = (
            preemptor.kind is not ClaimKind.FAIR_SHARE
            and self._now - preemptor.workload.queued_at >= self._min_runtime_s
        )
        if not owner_waits:
            return Candidates(willing)
        return Candidates(willing, [j for jobs in others for j in jobs.reluctant if may_give(j)])

    def _of_queue(self, name: str) -> Candidates:
        if name not in self._sorted_out:
            jobs = self._jobs[name]
            willing = [job for job in jobs if self._is_willing(job)]
            reluctant = [job for job in jobs if not self._is_willing(job)]
            self._sorted_out[name] = Candidates(willing, reluctant)
        return self._sorted_out[name]

    def _is_willing(self, job: AdmittedWorkload) -> bool:
        ran_s = self._now - _start(job)
        # far in the future: a clock was set back, and the job is older than it looks
        is_new = -self._min_runtime_s <= ran_s < self._min_runtime_s
        return not is_new and not self._history.is_over_budget(job.identity)

    def _giving_queues(
        self, preemptor: Preemptor, own_jobs: Sequence[AdmittedWorkload]
    ) -> Iterator[str]:
        """Other teams' queues that borrow what is missing. None for a preemptor that its own team's
        quota could not cover, except for a fair share; then none that borrows less than its team
        would, if no job of its own team gives."""
        own = self._quota.queues[preemptor.workload.queue]
        smallest_share = NO_SHARE
        if preemptor.kind is not ClaimKind.FAIR_SHARE:
            if not _may_own_all(own, preemptor, own_jobs):
                return
        elif not own_jobs:
            smallest_share = WorkingQuota(self._quota).share_with(own.name, preemptor.request)
        for queue in self._borrowing:
            is_rival = queue.name != own.name and queue.cohort == own.cohort
            if not is_rival or not queue.borrows(preemptor.missing):
                continue
            if self._quota.share(queue.name) >= smallest_share:
                yield queue.name


def _may_own_all(own: Queue, preemptor: Preemptor, own_jobs: Sequence[AdmittedWorkload]) -> bool:
    """Whether the request is within the queue's own quota once these jobs of it have given all."""
    return all(
        own.usage[key] + amount - _used(own_jobs, key) <= own.quota(key).nominal
        for key, amount in preemptor.request.items()
    )


def _used(jobs: Iterable[AdmittedWorkload], key: FlavorResource) -> int:
    return sum(job.usage[key] for job in jobs)


def is_foreign(preemptor: Preemptor, job: AdmittedWorkload) -> bool:
    """Whether the job belongs to another queue, so to another team."""
    return job.queue != preemptor.workload.queue


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
