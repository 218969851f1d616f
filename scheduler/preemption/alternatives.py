"""PURE. What would have been done without a target of a plan, and what that would have cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cede.api.preference_reasons import PreferenceReason
from cede.api.resources import NOT_ACCELERATORS, Quota
from scheduler.preemption.candidates import Candidates, lost_if_stopped, start, stop_s
from scheduler.preemption.preemption_plan import PreemptionPlan, Target
from scheduler.preemption.targets import TargetChooser

MAX_SPARED = 3
"""Targets of one plan without which it is made again."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """The plan that the same rules make if one of the targets cannot give."""

    spared: Target
    # those that would give in its place, or more than in the plan; none if they are not enough
    targets: tuple[Target, ...]
    # accelerators that the preemptor lacks × seconds, by the stops of these targets, and by those
    # that the plan has in their place; None if it lacks no accelerators
    cost_s: float | None
    planned_s: float | None
    reason: PreferenceReason


def find_alternatives(
    plan: PreemptionPlan, chooser: TargetChooser, now: float
) -> Iterator[Alternative]:
    """For the targets that cost most. `chooser` is the one that made the plan."""
    missing = plan.preemptor.missing
    candidates = chooser.candidates(plan.preemptor)
    dearest = sorted(plan.targets, key=lambda target: -(_cost_s([target], missing, now) or 0.0))
    for spared in dearest[:MAX_SPARED]:
        others = candidates.without(spared.job.uid)
        other_plan = chooser.targets_of(plan.preemptor, others)
        gives_more = tuple(_beyond(other_plan, plan.targets))
        if gives_more:
            reason = _reason(plan, spared, gives_more[0], candidates, chooser, now)
            cost_s = _cost_s(gives_more, missing, now)
            planned_s = _cost_s(tuple(_beyond(plan.targets, other_plan)), missing, now)
            yield Alternative(spared, gives_more, cost_s, planned_s, reason)
        elif not other_plan:
            yield Alternative(spared, (), None, None, PreferenceReason.NO_OTHER_JOBS)


def _beyond(targets: Sequence[Target], others: Sequence[Target]) -> Iterator[Target]:
    """The targets that give more than in the other plan."""
    sizes = {target.job.uid: target.size for target in others}
    for target in targets:
        if target.size < sizes.get(target.job.uid, target.job.size):
            yield target


def _cost_s(targets: Sequence[Target], missing: Quota, now: float) -> float | None:
    """In the unit in which jobs of one class are compared before one of them is stopped."""
    kinds = [kind for kind in missing if kind[1] not in NOT_ACCELERATORS]
    if not kinds:
        return None
    cost_s = 0.0
    for target in targets:
        if target.stops:
            accelerators = sum(target.job.usage[kind] for kind in kinds)
            cost_s += accelerators * stop_s(target.job, now)
    return cost_s


def _reason(
    plan: PreemptionPlan,
    target: Target,
    other: Target,
    candidates: Candidates,
    chooser: TargetChooser,
    now: float,
) -> PreferenceReason:
    """The first rule by which the two differ, if by it the target comes first."""
    preemptor = plan.preemptor
    last = {job.uid for jobs in candidates.last_resort for job in jobs}
    first_queue = min(target.job.queue, other.job.queue)

    def places(target: Target) -> Iterator[tuple[PreferenceReason, tuple[float, ...]]]:
        """Its place by each rule, the smallest first."""
        job = target.job
        rank = chooser.rank(preemptor, job.queue)
        yield PreferenceReason.SHRINKS_FIRST, (target.stops,)
        yield PreferenceReason.LAST_RESORT, (job.uid in last,)
        # of equal shares, the first by name
        yield PreferenceReason.TEAM_ORDER, (*rank, job.queue != first_queue)
        yield PreferenceReason.LOWEST_CLASS, (job.priority,)
        if target.stops:
            yield PreferenceReason.SAVES_FIRST, (not job.allowed_sizes,)
            yield PreferenceReason.LEAST_COST, (lost_if_stopped(job, preemptor.missing, now),)
        yield PreferenceReason.YOUNGEST_FIRST, (-start(job),)

    # a target that shrinks has fewer rules, and differs in the first one from a job that stops
    for (reason, own), (_, others) in zip(places(target), places(other), strict=False):
        if own != others:
            return reason if own < others else PreferenceReason.BEST_FIT
    return PreferenceReason.BEST_FIT
