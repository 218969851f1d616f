"""PURE. A preemption plan as a value: a preemptor, the jobs that give for it, and why."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cede.api.cession_status import MAX_TARGETS
from cede.api.reasons import CessionReason
from cede.api.resources import Quota, describe_amounts
from scheduler.preemption.candidates import Candidates, is_foreign
from scheduler.preemption.preemptors import ClaimKind, Preemptor
from scheduler.snapshot.workloads import AdmittedWorkload

MAX_NAMED_TARGETS = 20
"""In the sentence of a plan. The Cession lists all of them."""


@dataclass(frozen=True, slots=True)
class Target:
    """A job that shrinks to a smaller size; 0 stops it, or drains a pod of a server."""

    job: AdmittedWorkload
    size: int
    # seconds that it gets to answer; 0.0 if it is not asked, because it let deadlines pass before
    grace_s: float = 0.0

    @property
    def stops(self) -> bool:
        return self.size == 0 and not self.job.drains

    @property
    def released(self) -> Quota:
        if self.size == 0:
            return Counter(self.job.usage)
        return self.job.quota_for(self.job.size - self.size)


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """The targets of one preemptor; none if they could not release enough. `why` explains it."""

    preemptor: Preemptor
    targets: tuple[Target, ...]
    why: str
    # few jobs that release much, because the usual choice were more than one Cession holds
    is_by_size: bool = False
    # there are none, because even these would be too many
    is_oversized: bool = False

    @property
    def reason(self) -> CessionReason:
        """Of a plan that has targets."""
        return _reason(self.preemptor, self.targets)


def _reason(preemptor: Preemptor, targets: Iterable[Target]) -> CessionReason:
    foreign = {is_foreign(preemptor, target.job) for target in targets}
    if foreign == {False}:
        return CessionReason.PRIORITY_IN_TEAM
    if preemptor.kind is ClaimKind.FAIR_SHARE:
        return CessionReason.RECLAIM_FAIR_SHARE
    if False in foreign:
        return CessionReason.RECLAIM_AND_PRIORITY
    return CessionReason.RECLAIM_OWN_QUOTA


CLAIMS = {
    CessionReason.RECLAIM_OWN_QUOTA: "reclaims its team's own quota",
    CessionReason.PRIORITY_IN_TEAM: "has priority over jobs of its team",
    CessionReason.RECLAIM_AND_PRIORITY: (
        "reclaims its team's own quota and has priority over jobs of its team"
    ),
    CessionReason.RECLAIM_FAIR_SHARE: "claims a fair share of what teams borrow",
}


# --- sentences ------------------------------------------------------------------------------------
BY_SIZE = f"one Cession holds {MAX_TARGETS} jobs, so of each class the largest give: "


def why(preemptor: Preemptor, targets: Sequence[Target], *, is_by_size: bool = False) -> str:
    claim = CLAIMS[_reason(preemptor, targets)]
    changes = [
        f"{target.job.name} ({target.job.queue}) {_describe_change(target)}"
        for target in targets[:MAX_NAMED_TARGETS]
    ]
    if len(targets) > MAX_NAMED_TARGETS:
        changes.append(f"and {len(targets) - MAX_NAMED_TARGETS} more jobs give")
    return (
        f"{subject(preemptor)} {claim}: it lacks {describe_amounts(preemptor.missing)}; "
        f"{BY_SIZE if is_by_size else ''}{', '.join(changes)}"
    )


def why_none(preemptor: Preemptor, candidates: Candidates) -> str:
    sheltered = len(candidates.sheltered) if not candidates.stopped_before else 0
    spared = f"; {sheltered} of them, stopped before, are left to run" if sheltered else ""
    return (
        f"{subject(preemptor)} stays pending: it lacks {describe_amounts(preemptor.missing)}, and "
        f"the jobs that it may preempt cannot release that{spared}"
    )


def why_no_node(preemptor: Preemptor) -> str:
    return (
        f"{subject(preemptor)} stays pending: the jobs that it may preempt hold enough, but no "
        f"node would have room for its pods"
    )


def too_many(preemptor: Preemptor, targets: Sequence[Target]) -> PreemptionPlan:
    """Nobody gives: all of these would have to."""
    sentence = (
        f"{subject(preemptor)} stays pending: {len(targets)} jobs would have to release capacity, "
        f"more than the {MAX_TARGETS} of one Cession"
    )
    return PreemptionPlan(preemptor, (), sentence, is_oversized=True)


def why_disagreement(preemptor: Preemptor, queues: Iterable[str]) -> str:
    return (
        f"{subject(preemptor)} waits: what is in use in {', '.join(sorted(queues))} differs from "
        f"Kueue's own count, so capacity may be free already"
    )


def subject(preemptor: Preemptor) -> str:
    """Of the sentences about it."""
    return f"{preemptor.workload.name} ({preemptor.workload.queue})"


def _describe_change(target: Target) -> str:
    if target.stops:
        return "stops"
    if target.job.drains:
        return "drains"
    return f"shrinks from {target.job.size} to {target.size}"
