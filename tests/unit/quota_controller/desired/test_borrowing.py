"""Who borrows from whom adds up, limits are as written, and lent quota is not used twice."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.allocation import AllocationSpec
from cede.api.names import GPU
from cede.api.objects import CLUSTER_QUEUES, Json
from cede.api.resources import Quota
from cede.api.team_quota import Sharing, TypeQuota
from quota_controller.desired.borrowing import (
    attribute,
    available_quota,
    borrowing_limits,
    cohort_usage,
    queue_usage,
)
from quota_controller.desired.capacity import capacities
from quota_controller.desired.grants import Grants
from quota_controller.desired.plan import make_plan
from quota_controller.desired.quota_entries import owned_quota
from tests.builders.quotas import (
    G6,
    GI,
    P5,
    P5_GPU,
    allocation,
    as_live,
    node,
    policy,
    queue_spec,
    quota_entries,
    reservation,
    snapshot,
)


def test_usage_is_what_kueue_reports_as_reserved() -> None:
    resources = [
        {"name": GPU, "total": "7", "borrowed": "3"},
        {"name": "cpu", "total": "1500m"},
    ]
    status = {"flavorsReservation": [{"name": "p5", "resources": resources}]}
    used, borrowed = queue_usage({"status": status})
    assert (used["p5", GPU], used["p5", "cpu"], borrowed["p5", GPU]) == (7, 1500, 3)
    assert queue_usage(None) == ({}, {})


def test_lenders_lend_in_proportion_to_their_idle_quota() -> None:
    idle = {"a": Quota({P5_GPU: 4}), "b": Quota({P5_GPU: 12})}
    assert attribute(Quota({P5_GPU: 4}), idle) == {"a": {P5_GPU: 1}, "b": {P5_GPU: 3}}


@pytest.mark.parametrize(
    ("unallocated", "strategy", "borrowed", "lent"),
    [
        pytest.param(4, "LendAndBorrow", 3, 0, id="unallocated capacity is lent first"),
        pytest.param(4, "LendAndBorrow", 6, 2, id="then quota of lenders"),
        pytest.param(4, "DontLend", 4, 0, id="a team that does not lend has lent nothing"),
        pytest.param(4, "DontLend", 6, 2, id="unless it was lent before"),
    ],
)
def test_borrowed_quota_is_attributed_to(
    unallocated: int, strategy: str, borrowed: int, lent: int
) -> None:
    teams = [allocation("owner", sharing={"strategy": strategy}), allocation("borrower")]
    granted = {"owner": Quota({P5_GPU: 8}), "borrower": Quota({P5_GPU: 8})}
    live: Any = {
        (CLUSTER_QUEUES, ("", "borrower")): {"status": reservation(8 + borrowed, borrowed)}
    }
    grants = Grants(usable=granted, unallocated=Quota({P5_GPU: unallocated}))
    usage = cohort_usage(teams, grants, live, share_unallocated=True)
    assert (usage.lent["owner"][P5_GPU], usage.borrowed["borrower"][P5_GPU]) == (lent, borrowed)


@pytest.mark.parametrize(
    ("borrowed", "limit"),
    [
        pytest.param(0, "0", id="nothing is lent"),
        pytest.param(5, "5", id="lent quota stays lent until it is released"),
    ],
)
def test_a_team_that_stops_lending_gets_lent_quota_back_later(borrowed: int, limit: str) -> None:
    teams = [allocation("owner", sharing={"strategy": "DontLend"}), allocation("borrower")]
    nodes = [node("a"), node("b")]
    first = make_plan(snapshot(teams, nodes=nodes))
    live = as_live(first, borrower=reservation(8 + borrowed, borrowed))
    plan = make_plan(snapshot(teams, nodes=nodes, live=live))
    assert quota_entries(queue_spec(plan, "owner"))[GPU]["lendingLimit"] == limit


@pytest.mark.parametrize(("shared", "lent"), [(True, 0), (False, 4)])
def test_unallocated_capacity_that_is_not_shared_lends_nothing(shared: bool, lent: int) -> None:
    teams = [allocation("owner"), allocation("borrower")]
    nodes = [node("a"), node("b"), node("c")]
    live = as_live(make_plan(snapshot(teams, nodes=nodes)), borrower=reservation(12, 4))
    cluster_policy = policy(shareUnallocated=shared)
    plan = make_plan(snapshot(teams, nodes=nodes, live=live, cluster_policy=cluster_policy))
    assert plan.usage.lent["owner"][P5_GPU] == lent


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 50)), st.integers(0, 200))
def test_no_team_lends_more_than_its_idle_quota(idle: dict[str, int], borrowed: int) -> None:
    idle_quota = {name: Quota({P5_GPU: value}) for name, value in idle.items()}
    by_lender = attribute(Quota({P5_GPU: borrowed}), idle_quota)
    lent = {name: quota[P5_GPU] for name, quota in by_lender.items()}
    assert all(lent[name] <= value for name, value in idle.items())
    assert sum(lent.values()) == min(borrowed, sum(idle.values()))


@pytest.mark.parametrize(
    ("sharing", "own_used", "others", "expected"),
    [
        pytest.param({}, 0, (0, 0), 20, id="all that is idle, unallocated capacity too"),
        pytest.param({}, 8, (0, 0), 12, id="minus its own usage"),
        pytest.param({}, 0, (12, 4), 8, id="minus what others borrow"),
        pytest.param({}, 0, (20, 12), 0, id="nothing is idle"),
        pytest.param({"borrowLimitPercent": 25}, 0, (0, 0), 10, id="its own and its limit"),
        pytest.param({"borrowLimitPercent": 25}, 9, (0, 0), 1, id="what is left of its limit"),
        pytest.param({"strategy": "Lend"}, 2, (0, 0), 6, id="its own only"),
        pytest.param({"strategy": "DontLend"}, 2, (12, 4), 6, id="its own, whatever others borrow"),
    ],
)
def test_what_the_next_job_could_use(
    sharing: Json, own_used: int, others: tuple[int, int], expected: int
) -> None:
    """The team owns eight, another team eight, and four are unallocated."""
    team = allocation("owner", sharing=sharing)
    granted = {"owner": Quota({P5_GPU: 8}), "borrower": Quota({P5_GPU: 8})}
    own_borrowed = max(0, own_used - 8)
    live: Any = {
        (CLUSTER_QUEUES, ("", "owner")): {"status": reservation(own_used, own_borrowed)},
        (CLUSTER_QUEUES, ("", "borrower")): {"status": reservation(*others)},
    }
    usage = cohort_usage(
        [team, allocation("borrower")],
        Grants(usable=granted, unallocated=Quota({P5_GPU: 4})),
        live,
        share_unallocated=True,
    )
    capacity_of = capacities([P5], [])
    limit = borrowing_limits(team.spec, granted["owner"], capacity_of)
    assert available_quota(team, granted["owner"], limit, usage)[P5_GPU] == expected


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        pytest.param({}, None, id="no limit"),
        pytest.param({"borrowLimitPercent": 50}, (4, 95_000, 950), id="percent of each resource"),
        pytest.param({"borrowLimitPercent": 0}, (0, 0, 0), id="nothing"),
        pytest.param({"borrowLimitPercent": 300}, (24, 570_000, 5700), id="more than is owned"),
        pytest.param(
            {"borrowLimits": [{"instanceType": "p5", "accelerators": 2}]},
            (2, 47_500, 475),
            id="amounts",
        ),
        pytest.param(
            {"borrowLimits": [{"instanceType": "g6", "count": 1}]},
            (0, 0, 0),
            id="only types in the list",
        ),
        pytest.param({"strategy": "Lend"}, (0, 0, 0), id="lends only"),
        pytest.param({"strategy": "DontLend"}, (0, 0, 0), id="shares nothing"),
    ],
)
def test_borrowing_limits(
    sharing: dict[str, object], expected: tuple[int, int, int] | None
) -> None:
    capacity_of = capacities([P5, G6], [])
    spec = AllocationSpec(
        quotas=[TypeQuota(instanceType="p5", count=1)], sharing=Sharing.model_validate(sharing)
    )
    limits = borrowing_limits(spec, owned_quota(spec, capacity_of), capacity_of)
    if expected is None:
        assert limits is None
    else:
        assert limits is not None
        memory = limits["p5", "memory"] // GI
        assert (limits["p5", GPU], limits["p5", "cpu"], memory) == expected
