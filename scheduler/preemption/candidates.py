"""PURE. Which jobs may give for a preemptor, and in which order the jobs of one team give.

Nothing here depends on what a job or its user may change while it runs. A job that reports no save,
or none in time, is not treated better than one that does.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

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

Jobs = Sequence[AdmittedWorkload]
Order = Callable[[AdmittedWorkload], tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The jobs that may give."""

    willing: Jobs = ()
    # they were stopped lately, or often: they may shrink, but are not stopped
    sheltered: Jobs = ()
    # to be taken only if the others are not enough: first those that have just started, then those
    # that were stopped, at last those for which the preemptor itself was stopped
    new: Jobs = ()
    stopped_before: Jobs = ()
    winners: Jobs = ()

    @property
    def may_shrink(self) -> Jobs:
        return [*self.willing, *self.sheltered]

    @property
    def last_resort(self) -> tuple[Jobs, ...]:
        """All of one part before anyone of the next."""
        return self.new, self.stopped_before, self.winners

    def hold(self, amounts: Quota) -> bool:
        """Whether they use so much, all of them together."""
        jobs = [*self.may_shrink, *chain.from_iterable(self.last_resort)]
        return all(_used(jobs, key) >= amount for key, amount in amounts.items())

    def without(self, uid: str) -> "Candidates":
        """Without the job whose Workload has this uid."""

        def rest(jobs: Jobs) -> Jobs:
            return [job for job in jobs if job.uid != uid]

        return Candidates(*map(rest, (self.willing, self.sheltered, *self.last_resort)))


class CandidatePool:
    """The jobs of a snapshot, for one preemptor after another. Those of a queue are sorted out when
    they are first needed."""

    def __init__(
        self, snapshot: Snapshot, history: JobHistory, now: float, min_runtime_s: float
    ) -> None:
        self._snapshot = snapshot
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
            if queue.managed and queue.cohort and snapshot.quota.borrows(queue.name, queue.usage)
        ]

    def find(self, preemptor: Preemptor) -> Candidates:
        """Those that Kueue itself might preempt: of its own team those of a lower class, of other
        teams those whose queue borrows (Kueue: findCandidates in pkg/scheduler/preemption).

        A job that has run for less than `min_runtime_s` is left alone, and so is one for which the
        preemptor was stopped. One that was stopped lately, or too often, is not stopped again. One
        exception: an owner that has waited for `min_runtime_s` takes even these jobs from other
        teams, after all others. Otherwise a stream of short jobs, or one job that won once, would
        keep its quota.
        """
        own = self._quota.queues[preemptor.workload.queue]
        spared = self._history.stopped_for.get(preemptor.workload.identity, frozenset())
        keys = list(preemptor.missing)

        def is_useful(job: AdmittedWorkload) -> bool:
            return any(job.usage[key] for key in keys)

        def has_won(job: AdmittedWorkload) -> bool:
            return job.uid in spared or job.job in spared

        def may_give(job: AdmittedWorkload) -> bool:
            return is_useful(job) and not has_won(job)

        def is_lower(job: AdmittedWorkload) -> bool:
            return job.priority < preemptor.workload.priority and may_give(job)

        of_own = self._of_queue(own.name) if own.preempts_own_jobs else Candidates()
        willing = [job for job in of_own.willing if is_lower(job)]
        sheltered = [job for job in of_own.sheltered if is_lower(job)]
        giving = list(self._giving_queues(preemptor, [*willing, *sheltered]))
        others = [self._of_queue(name) for name in giving]
        willing += [job for jobs in others for job in jobs.willing if may_give(job)]
        sheltered += [job for jobs in others for job in jobs.sheltered if may_give(job)]
        waited_s = self._snapshot.seconds_since(preemptor.workload.queued_at, self._now)
        if not preemptor.is_owner or waited_s < self._min_runtime_s:
            return Candidates(willing, sheltered)
        return Candidates(
            willing,
            sheltered,
            [job for jobs in others for job in jobs.new if may_give(job)],
            [job for jobs in others for job in jobs.stopped_before if may_give(job)],
            [job for name in giving for job in self._jobs[name] if is_useful(job) and has_won(job)],
        )

    def _of_queue(self, name: str) -> Candidates:
        if name not in self._sorted_out:
            # by whether they are new, and sheltered
            jobs = defaultdict[tuple[bool, bool], list[AdmittedWorkload]](list)
            for job in self._jobs[name]:
                # a surplus loses nothing: otherwise its base, which may be stopped, would be
                is_sheltered = not job.base and self._history.is_sheltered(job.identity)
                jobs[not job.base and self._is_new(job), is_sheltered].append(job)
            self._sorted_out[name] = Candidates(
                willing=jobs[False, False],
                sheltered=jobs[False, True],
                new=jobs[True, False],
                stopped_before=jobs[False, True] + jobs[True, True],
            )
        return self._sorted_out[name]

    def _is_new(self, job: AdmittedWorkload) -> bool:
        # far in the future: a clock was set back, and the job is older than it looks
        return -self._min_runtime_s <= self._now - start(job) < self._min_runtime_s

    def _giving_queues(
        self, preemptor: Preemptor, own_jobs: Sequence[AdmittedWorkload]
    ) -> Iterator[str]:
        """Other teams' queues that borrow what is missing. None for a preemptor that its own team's
        quota could not cover, except for a fair share; then none that borrows less than its team
        would, if no job of its own team gives."""
        own = self._quota.queues[preemptor.workload.queue]
        rivals = [
            queue
            for queue in self._borrowing
            if queue.name != own.name
            and queue.cohort == own.cohort
            and self._quota.borrows(queue.name, preemptor.missing)
        ]
        if not rivals:
            return
        smallest_share = NO_SHARE
        if preemptor.kind is not ClaimKind.FAIR_SHARE:
            if not _may_own_all(own, preemptor, own_jobs):
                return
        elif not own_jobs:
            smallest_share = WorkingQuota(self._quota).share_with(own.name, preemptor.request)
        for queue in rivals:
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
    return job.priority, -start(job), job.key


def stop_order(preemptor: Preemptor, now: float) -> Order:
    """The lowest class first; in a class, jobs that are asked to save before jobs that cannot be;
    then the least that a stop would lose; then the youngest."""
    return lambda job: (
        job.priority,
        not job.allowed_sizes,
        lost_if_stopped(job, preemptor.missing, now),
        -start(job),
        job.key,
    )


def largest_first(order: Order, missing: Quota, *, stop: bool) -> Order:
    """Of jobs that the rules above treat alike but for what they would lose and their age, the one
    first that releases most of what is missing. More of a resource than is missing is worth no
    more."""

    def place(job: AdmittedWorkload) -> tuple[object, ...]:
        released = job.usage if stop else job.quota_for(job.size - job.smallest_size)
        parts = (min(1.0, released[key] / amount) for key, amount in missing.items() if amount)
        return job.priority, stop and not job.allowed_sizes, -sum(parts), *order(job)

    return place


def lost_if_stopped(job: AdmittedWorkload, missing: Quota, now: float) -> float:
    """What the stop would lose: capacity of the kind that is missing × seconds."""
    return weight(job, missing) * stop_s(job, now)


def stop_s(job: AdmittedWorkload, now: float) -> float:
    """Seconds that the stop costs each of its pods.

    A job that can be asked saves first, whatever it has reported until then. What the others have
    saved is not known, so it is the time since their start, up to a limit. No report of a job makes
    this larger: if a report did, the job that lies would be spared.
    """
    ran_s = max(0.0, now - start(job))
    unsaved_s = 0.0 if job.allowed_sizes else min(ran_s, UNSAVED_LIMIT_S)
    return RESTART_S + unsaved_s


def start(job: AdmittedWorkload) -> float:
    """Unix seconds. Growth is no new start."""
    return job.started or job.reserved_since


def weight(job: AdmittedWorkload, missing: Quota) -> float:
    """How often the job holds what is missing. Not its number of pods: one pod of eight
    accelerators weighs as much as eight pods of one."""
    return sum(job.usage[key] / amount for key, amount in missing.items() if amount)
