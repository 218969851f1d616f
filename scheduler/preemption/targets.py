"""PURE. Which jobs shrink or stop for a preemptor: all that it lacks is released, or nothing is.

1. Candidates are the jobs that Kueue itself might preempt for it (candidates.py).
2. Jobs shrink until the preemptor fits. The team that is furthest over its share gives, until
   another one is; in a team, the lowest class. First no queue is shrunk below its nominal quota; if
   that is not enough, a borrowing queue may end below it.
3. If shrinking is not enough, jobs are stopped as well, in the same order of teams.
4. From the last target to the first, each is given back what turned out not to be needed.

If the pods of the preemptor would find no room on nodes, jobs on the same nodes give instead, or
nobody does.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from cede.api.policy import PolicySpec
from cede.api.resources import FlavorResource
from scheduler.preemption.candidates import by_queue, find_candidates, shrink_order, stop_order
from scheduler.preemption.job_history import JobHistory
from scheduler.preemption.preemption_plan import (
    PreemptionPlan,
    Target,
    why,
    why_disagreement,
    why_no_node,
    why_none,
)
from scheduler.preemption.preemptors import Preemptor
from scheduler.preemption.seats import Seats, jobs_on_useful_nodes, make_seats, places_are_known
from scheduler.preemption.trial import Rank, Trial
from scheduler.quota.working_quota import WorkingQuota
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload

Jobs = Sequence[AdmittedWorkload]


class TargetChooser:
    """Chooses targets on one snapshot, for one preemptor after another."""

    def __init__(
        self, snapshot: Snapshot, policy: PolicySpec, history: JobHistory, now: float
    ) -> None:
        self._snapshot = snapshot
        self._settings = policy.preemption
        self._instance_types = policy.instanceTypes
        self._history = history
        self._now = now
        self._quota = snapshot.quota
        self._jobs = defaultdict[str, list[AdmittedWorkload]](list)
        for job in snapshot.admitted:
            self._jobs[job.queue].append(job)
        # what jobs hold in queues that borrow it
        self._borrowed = dict[FlavorResource, int]()

    def choose(self, preemptor: Preemptor) -> PreemptionPlan:
        """The targets for this preemptor. Nobody gives for resources of which the snapshot
        contradicts itself."""
        if self._snapshot.disagreement & preemptor.missing.keys():
            counts = self._snapshot.disagreements
            queues = {queue for queue, key in counts if key in preemptor.missing}
            return PreemptionPlan(preemptor, (), why_disagreement(preemptor, queues))
        if self._is_hopeless(preemptor):
            return PreemptionPlan(preemptor, (), why_none(preemptor, preemptor.missing))
        trial = Trial(preemptor, WorkingQuota(self._quota), None)
        has_seats = True
        for trial in self._trials(preemptor):
            has_seats = trial.has_seats()
            if trial.is_enough and has_seats:
                targets = tuple(self._with_grace(target) for target in trial.targets.values())
                return PreemptionPlan(preemptor, targets, why(preemptor, targets))
        missing = trial.quota.missing(preemptor.workload.queue, preemptor.request)
        if not missing and not has_seats:
            return PreemptionPlan(preemptor, (), why_no_node(preemptor))
        return PreemptionPlan(preemptor, (), why_none(preemptor, missing))

    def _trials(self, preemptor: Preemptor) -> Iterator[Trial]:
        """From the gentlest to the last resort. In a pair, the second is for nodes: jobs that hold
        the nodes that the preemptor needs, then all."""
        working = WorkingQuota(self._quota)
        candidates = find_candidates(
            preemptor,
            self._jobs,
            working,
            self._history,
            self._now,
            self._settings.minRuntimeSeconds,
        )
        for jobs in (candidates.willing, candidates.willing + candidates.reluctant):
            trial = self._try(preemptor, jobs, needs_seats=False)
            yield trial
            if trial.is_enough:
                seats = self._seats(preemptor, jobs)
                useful = jobs_on_useful_nodes(seats, jobs) if seats else ()
                yield self._try(preemptor, useful, needs_seats=True)
                yield self._try(preemptor, jobs, needs_seats=True)
            if not candidates.reluctant:
                return

    def _try(self, preemptor: Preemptor, jobs: Jobs, *, needs_seats: bool) -> Trial:
        seats = self._seats(preemptor, jobs)
        trial = Trial(preemptor, WorkingQuota(self._quota), seats, needs_seats=needs_seats)
        _shrink(trial, jobs, below_nominal=False)
        _shrink(trial, jobs, below_nominal=True)
        _stop(trial, jobs, self._now)
        if trial.is_enough:
            for target in reversed(list(trial.targets.values())):
                trial.grow_back(target.job)
        return trial

    def _seats(self, preemptor: Preemptor, jobs: Jobs) -> Seats | None:
        """None if nobody knows what the jobs would leave free on which node."""
        if not all(places_are_known(job, preemptor.missing) for job in jobs):
            return None
        return make_seats(preemptor, self._snapshot.nodes, self._instance_types)

    def _is_hopeless(self, preemptor: Preemptor) -> bool:
        """Whether all jobs of queues that borrow, and all jobs of its own queue, hold less than is
        missing. It costs nothing per job, for the many that wait."""
        own = self._quota.queues[preemptor.workload.queue]
        return any(
            amount > self._lent(key) + own.usage[key] for key, amount in preemptor.missing.items()
        )

    def _lent(self, key: FlavorResource) -> int:
        if key not in self._borrowed:
            queues = self._quota.queues.values()
            self._borrowed[key] = sum(q.usage[key] for q in queues if q.borrows([key]))
        return self._borrowed[key]

    def _with_grace(self, target: Target) -> Target:
        if self._history.ignores_deadlines(target.job.identity):
            return target
        return replace(target, grace_s=self._settings.grace_s(target.job.grace_s))


# --- shrink, then stop ----------------------------------------------------------------------------
def _shrink(trial: Trial, jobs: Jobs, *, below_nominal: bool) -> None:
    """Jobs shrink until it is enough, or none may shrink any further."""
    able = [job for job in jobs if job.allowed_sizes and trial.size(job) > job.smallest_size]
    queues = by_queue(able, shrink_order)

    def shrink_next(name: str, rival: Rank | None) -> None:
        if not trial.may_give(name):
            queues[name].clear()
            return
        job = queues[name][-1]
        before = trial.size(job)
        may_go_on = trial.shrink(job, rival, below_nominal=below_nominal)
        if trial.is_enough:
            _take_finer(trial, job, before, queues[name])
        if not may_go_on or trial.size(job) <= job.smallest_size:
            queues[name].pop()

    _in_turn(trial, queues, shrink_next)


def _take_finer(trial: Trial, job: AdmittedWorkload, before: int, rivals: Jobs) -> None:
    """Of the jobs of one team and one class, the one gives last whose sizes release the least too
    much."""
    chosen = trial.size(job)
    missing = trial.preemptor.missing
    best = (sum(job.per_pod[key] for key in missing) * (before - chosen), job, chosen)
    trial.give(job, before)
    for rival in rivals:
        if rival.priority == job.priority and rival.uid != job.uid:
            size = trial.smallest_gift(rival)
            if size is not None:
                pods = trial.size(rival) - size
                gift = sum(rival.per_pod[key] for key in missing) * pods
                best = min(best, (gift, rival, size), key=lambda option: option[0])
    trial.give(best[1], best[2])


def _stop(trial: Trial, jobs: Jobs, now: float) -> None:
    """Jobs stop in addition, until it is enough."""
    # a job with a pending scale-up slice is not stopped: its pods would run on without quota
    # (Kueue 0.19.2)
    able = [job for job in jobs if not job.is_growing]
    queues = by_queue(able, stop_order(trial.preemptor, now))

    def stop_next(name: str, _: Rank | None) -> None:
        job = queues[name].pop()
        if trial.may_stop(job):
            trial.give(job, 0)

    _in_turn(trial, queues, stop_next)


def _in_turn(
    trial: Trial,
    queues: dict[str, list[AdmittedWorkload]],
    give_next: Callable[[str, Rank | None], None],
) -> None:
    """The queue that is furthest over its share gives, again and again, until it is enough or no
    queue may give. A queue's share changes by nothing but its own gifts."""
    ranking = [(trial.rank(name), name) for name in queues]
    heapify(ranking)
    while ranking and not trial.is_enough:
        _, name = heappop(ranking)
        give_next(name, ranking[0][0] if ranking else None)
        if queues[name]:
            heappush(ranking, (trial.rank(name), name))
