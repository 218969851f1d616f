"""A choice in the making: which queue gives next, and what is enough and rightful."""

from dataclasses import replace

import pytest

from scheduler.preemption.preemptors import ClaimKind, Preemptor
from scheduler.preemption.trial import Trial
from scheduler.quota.cohort import CohortQuota
from scheduler.quota.working_quota import WorkingQuota
from tests.builders.scheduler import KEY, admitted, cohort_quota, gpus, pending, queue

# vision owns 4 and uses 1; greedy owns 0 and uses 5; modest owns 4 and uses 6
QUOTA = cohort_quota(
    queue("vision", 4, 1), queue("greedy", 0, 5), queue("modest", 4, 6), cohort_nominal=4
)


def trial(
    kind: ClaimKind = ClaimKind.OWN_QUOTA, pods: int = 3, quota: CohortQuota = QUOTA
) -> Trial:
    working = WorkingQuota(quota)
    request = gpus(pods)
    missing = working.missing("vision", request)
    return Trial(Preemptor(pending(pods=pods), request, missing, kind=kind), working, None)


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        (ClaimKind.OWN_QUOTA, ["greedy", "modest", "vision"]),
        (ClaimKind.GROWTH, ["greedy", "modest", "vision"]),
        (ClaimKind.PRIORITY_IN_TEAM, ["vision", "greedy", "modest"]),
    ],
)
def test_the_order_of_queues(kind: ClaimKind, order: list[str]) -> None:
    """By what they borrow. The own queue comes first only if it must."""
    assert sorted(QUOTA.queues, key=trial(kind).rank) == order


def test_a_weight_makes_a_share_smaller() -> None:
    heavy = replace(queue("greedy", 0, 5), weight=9.0)
    weighted = cohort_quota(queue("vision", 4, 1), heavy, queue("modest", 4, 6))
    ranks = trial(quota=weighted)
    assert ranks.rank("modest") < ranks.rank("greedy")


def test_for_a_fair_share_the_own_queue_ranks_with_the_preemptor() -> None:
    poor = trial(ClaimKind.FAIR_SHARE, pods=4)
    assert poor.rank("greedy") < poor.rank("vision")
    rich = trial(ClaimKind.FAIR_SHARE, pods=9)
    assert rich.rank("vision") < rich.rank("greedy")


def test_a_queue_within_its_nominal_quota_owes_nothing() -> None:
    changes = trial()
    assert changes.may_give("modest")
    changes.give(admitted("m", "modest", 6), 4)
    assert not changes.may_give("modest")


def test_others_owe_nothing_to_a_team_that_would_borrow() -> None:
    """Until its own jobs have given enough."""
    changes = trial(ClaimKind.PRIORITY_IN_TEAM, pods=4)
    assert not changes.may_give("greedy")
    changes.give(admitted("low", "vision", 1, ()), 0)
    assert changes.may_give("greedy")


def test_what_is_given_and_taken_back_leaves_no_trace() -> None:
    changes = trial()
    job = admitted("g", "greedy", 5)
    for size in (3, 0, 4, 5):
        changes.give(job, size)
    assert changes.targets == {}
    assert changes.quota.used("greedy", KEY) == 5
    assert not changes.is_enough


def test_a_job_shrinks_until_another_queue_should_give() -> None:
    """greedy borrows 5, modest 2: greedy gives until it borrows less than modest."""
    changes = trial(pods=3)
    job = admitted("g", "greedy", 5, (1, 2, 3, 4, 5))
    assert changes.shrink(job, changes.rank("modest"), below_nominal=False)
    assert changes.size(job) == 2 or changes.is_enough
