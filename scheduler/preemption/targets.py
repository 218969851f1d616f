"""PURE. Which jobs shrink or stop for a preemptor: all that it lacks is released, or nothing is.

1. Candidates are the jobs that Kueue itself might preempt for it (candidates.py).
2. Jobs shrink until the preemptor fits. The team that is furthest over its share gives, until
   another one is; in a team, the lowest class. First no queue is shrunk below its nominal quota; if
   that is not enough, a borrowing queue may end below it.
3. If shrinking is not enough, jobs are stopped as well, in the same order of teams.
4. From the last target to the first, each is given back what turned out not to be needed.

If these are more jobs than one Cession holds, the jobs that release most give first in their class.
If they are still too many, nobody gives.

If the pods of the preemptor would find no room on nodes, jobs on the same nodes give instead, or
nobody does.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import chain

from cede.api.cession_status import MAX_TARGETS
from cede.api.policy import PolicySpec
from scheduler.preemption.candidates import (
    CandidatePool,
    Candidates,
    Jobs,
    Order,
    largest_first,
    shrink_order,
    stop_order,
)
from scheduler.preemption.job_history import JobHistory
from scheduler.preemption.preemption_plan import (
    PreemptionPlan,
    Target,
    too_many,
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


@dataclass(frozen=True, slots=True)
class _Choice:
    """Jobs that may give together."""

    # all of them
    may_shrink: Jobs
    # who may be stopped as well: all of one tier before anyone of the next
    may_stop: tuple[Jobs, ...]
    # few jobs that release much, in place of many that lose little
    is_by_size: bool = False

    def only(self, jobs: Jobs) -> "_Choice":
        """Without all other jobs."""
        uids = {job.uid for job in jobs}
        tiers = tuple(tuple(filter(lambda job: job.uid in uids, tier)) for tier in self.may_stop)
        return replace(self, may_shrink=jobs, may_stop=tiers)


def _choices(candidates: Candidates, *, by_size: bool) -> Iterator[_Choice]:
    """From the gentlest to the last resort."""
    yield _Choice(candidates.may_shrink, (candidates.willing,), by_size)
    if any(candidates.last_resort):
        tiers = (candidates.willing, *candidates.last_resort)
        everybody = {job.uid: job for job in chain(candidates.may_shrink, *tiers)}
        yield _Choice(list(everybody.values()), tiers, by_size)


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
        self._pool = CandidatePool(snapshot, history, now, policy.preemption.minRuntimeSeconds)

    def choose(self, preemptor: Preemptor) -> PreemptionPlan:
        """The targets for this preemptor. Nobody gives for resources of which the snapshot
        contradicts itself."""
        if self._snapshot.disagreement & preemptor.missing.keys():
            counts = self._snapshot.disagreements
            queues = {queue for queue, key in counts if key in preemptor.missing}
            return PreemptionPlan(preemptor, (), why_disagreement(preemptor, queues))
        return self._plan(preemptor, self.candidates(preemptor))

    def candidates(self, preemptor: Preemptor) -> Candidates:
        return self._pool.find(preemptor)

    def targets_of(self, preemptor: Preemptor, candidates: Candidates) -> tuple[Target, ...]:
        """The targets if only these could give; none if they could not release enough."""
        return self._plan(preemptor, candidates).targets

    def rank(self, preemptor: Preemptor, queue: str) -> Rank:
        """When its jobs give, before anybody has given."""
        return Trial(preemptor, WorkingQuota(self._snapshot.quota)).rank(queue)

    def _plan(self, preemptor: Preemptor, candidates: Candidates) -> PreemptionPlan:
        """One of more targets than a Cession holds is made again, of larger jobs."""
        targets, reason = self._targets(preemptor, candidates)
        is_by_size = len(targets) > MAX_TARGETS
        if is_by_size:
            fewer, _ = self._targets(preemptor, candidates, by_size=True)
            targets = fewer or targets
        if len(targets) > MAX_TARGETS:
            return too_many(preemptor, targets)
        if targets:
            reason = why(preemptor, targets, is_by_size=is_by_size)
        return PreemptionPlan(preemptor, targets, reason, is_by_size)

    def _targets(
        self, preemptor: Preemptor, candidates: Candidates, *, by_size: bool = False
    ) -> tuple[tuple[Target, ...], str]:
        """Also why there are none."""
        reason = why_none(preemptor, candidates)
        if not candidates.hold(preemptor.missing):
            return (), reason
        for choice in _choices(candidates, by_size=by_size):
            trial = self._try(preemptor, choice)
            if not trial.is_enough:
                continue
            seats = self._seats(preemptor, choice.may_shrink)
            if seats is not None and not trial.is_seated(seats.copy()):
                reason = why_no_node(preemptor)
                trial = self._try_for_seats(preemptor, choice, seats)
            if trial.is_enough:
                return tuple(self._with_grace(target) for target in trial.targets.values()), ""
        return (), reason

    def _try_for_seats(self, preemptor: Preemptor, choice: _Choice, seats: Seats) -> Trial:
        """First the jobs that hold the nodes that the preemptor needs, then all."""
        useful = choice.only(jobs_on_useful_nodes(seats, choice.may_shrink))
        trial = self._try(preemptor, useful, seats.copy())
        return trial if trial.is_enough else self._try(preemptor, choice, seats.copy())

    def _try(self, preemptor: Preemptor, choice: _Choice, seats: Seats | None = None) -> Trial:
        trial = Trial(preemptor, WorkingQuota(self._snapshot.quota), seats)
        shrinking: Order = shrink_order
        stopping = stop_order(preemptor, self._now)
        if choice.is_by_size:
            shrinking = largest_first(shrinking, preemptor.missing, stop=False)
            stopping = largest_first(stopping, preemptor.missing, stop=True)
        _shrink(trial, choice.may_shrink, shrinking, below_nominal=False)
        _shrink(trial, choice.may_shrink, shrinking, below_nominal=True)
        for jobs in choice.may_stop:
            # a job with a pending scale-up slice is not stopped: its pods would run on without
            # quota (Kueue 0.19.2)
            able = (job for job in jobs if not self._snapshot.is_growing(job))
            _stop(trial, able, stopping)
        if trial.is_enough:
            for target in reversed(list(trial.targets.values())):
                trial.grow_back(target.job)
        return trial

    def _seats(self, preemptor: Preemptor, jobs: Jobs) -> Seats | None:
        """None if nobody knows what the jobs would leave free on which node."""
        if not all(places_are_known(job, preemptor.missing) for job in jobs):
            return None
        return make_seats(preemptor, self._snapshot.nodes, self._instance_types)

    def _with_grace(self, target: Target) -> Target:
        if self._history.ignores_deadlines(target.job.identity):
            return target
        return replace(target, grace_s=self._settings.grace_s(target.job.grace_s))


# --- shrink, then stop ----------------------------------------------------------------------------
def _shrink(trial: Trial, jobs: Jobs, order: Order, *, below_nominal: bool) -> None:
    """Jobs shrink until it is enough, or none may shrink any further."""

    def shrink_next(queue: list[AdmittedWorkload], rival: Rank | None) -> None:
        job = queue[-1]
        if not trial.may_give(job.queue):
            queue.clear()
            return
        before = trial.size(job)
        may_go_on = trial.shrink(job, rival, below_nominal=below_nominal)
        if trial.is_enough:
            _take_finer(trial, job, before, queue)
        if not may_go_on or trial.size(job) <= job.smallest_size:
            queue.pop()

    able = (job for job in jobs if job.sizes_now and trial.size(job) > job.smallest_size)
    _in_turn(trial, able, order, shrink_next)


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


def _stop(trial: Trial, jobs: Iterable[AdmittedWorkload], order: Order) -> None:
    """Jobs stop in addition, until it is enough."""

    def stop_next(queue: list[AdmittedWorkload], _: Rank | None) -> None:
        job = queue.pop()
        if trial.may_stop(job):
            trial.give(job, 0)
        elif not trial.may_give(job.queue):
            # only a job that shrank already may still stop instead
            queue[:] = [other for other in queue if trial.size(other) < other.size]

    _in_turn(trial, jobs, order, stop_next)


def _in_turn(
    trial: Trial,
    jobs: Iterable[AdmittedWorkload],
    order: Order,
    give_next: Callable[[list[AdmittedWorkload], Rank | None], None],
) -> None:
    """The queue that is furthest over its share gives, again and again, until it is enough or no
    queue may give. A queue's share changes by nothing but its own gifts.

    `give_next` gets the jobs of that queue, whoever gives first at the end, and removes those that
    give no more.
    """
    if trial.is_enough:
        return
    queues = defaultdict[str, list[AdmittedWorkload]](list)
    for job in jobs:
        queues[job.queue].append(job)
    ranking = [(trial.rank(name), name) for name in queues]
    heapify(ranking)
    # most often only a few of many queues have their turn
    is_sorted = set[str]()
    while ranking and not trial.is_enough:
        _, name = heappop(ranking)
        if name not in is_sorted:
            queues[name].sort(key=order, reverse=True)
            is_sorted.add(name)
        give_next(queues[name], ranking[0][0] if ranking else None)
        if queues[name]:
            heappush(ranking, (trial.rank(name), name))
