"""A preemption plan explains itself in a sentence that fits into a record."""

import pytest

from cede.api.reasons import CessionReason
from scheduler.preemption.preemption_plan import MAX_NAMED_TARGETS, PreemptionPlan, Target, why
from scheduler.preemption.preemptors import ClaimKind, Preemptor
from tests.builders.scheduler import admitted, gpus, pending

FOREIGN = Target(admitted(), 4)
OWN = Target(admitted("low", "vision"), 0)


@pytest.mark.parametrize(
    ("kind", "targets", "reason"),
    [
        (ClaimKind.OWN_QUOTA, (FOREIGN,), CessionReason.RECLAIM_OWN_QUOTA),
        (ClaimKind.GROWTH, (FOREIGN,), CessionReason.RECLAIM_OWN_QUOTA),
        (ClaimKind.PRIORITY_IN_TEAM, (OWN,), CessionReason.PRIORITY_IN_TEAM),
        (ClaimKind.PRIORITY_IN_TEAM, (OWN, FOREIGN), CessionReason.RECLAIM_AND_PRIORITY),
        (ClaimKind.FAIR_SHARE, (OWN,), CessionReason.PRIORITY_IN_TEAM),
        (ClaimKind.FAIR_SHARE, (OWN, FOREIGN), CessionReason.RECLAIM_FAIR_SHARE),
    ],
)
def test_the_reason_of_a_plan(
    kind: ClaimKind, targets: tuple[Target, ...], reason: CessionReason
) -> None:
    preemptor = Preemptor(pending(), gpus(4), gpus(4), kind=kind)
    assert PreemptionPlan(preemptor, targets, "").reason is reason


def test_a_stop_releases_all_that_the_job_uses() -> None:
    assert OWN.released == gpus(8)
    assert FOREIGN.released == gpus(4)


def test_a_sentence_names_at_most_some_targets() -> None:
    """Also 1,000 jobs with long names fit into a record."""
    targets = [Target(admitted("x" * 63), 4)] * (MAX_NAMED_TARGETS + 980)
    text = why(Preemptor(pending(), gpus(4), gpus(4)), targets)
    assert text.endswith("shrinks from 8 to 4, and 980 more jobs give")
    assert len(text) < 3000
