"""The account of who holds what of whom adds up, and nobody may use what is still lent."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.names import GPU
from cede.api.objects import CLUSTER_QUEUES, Json
from cede.api.resources import Quota
from quota_controller.desired.borrowing import account, free, lent, usage
from quota_controller.desired.capacity import Shares
from quota_controller.desired.plan import plan
from tests.unit.quota_controller.desired.test_capacity import node
from tests.unit.quota_controller.desired.test_plan import (
    allocation,
    amounts,
    as_live,
    policy,
    queue,
    seen,
)

KEY = ("p5", GPU)


def reserves(total: int, borrowed: int = 0) -> Json:
    return {
        "flavorsReservation": [
            {
                "name": "p5",
                "resources": [{"name": GPU, "total": str(total), "borrowed": str(borrowed)}],
            }
        ]
    }


def test_usage_is_kueues_own_count() -> None:
    reserved = [
        {
            "name": "p5",
            "resources": [
                {"name": GPU, "total": "7", "borrowed": "3"},
                {"name": "cpu", "total": "1500m"},
            ],
        }
    ]
    used, borrowed = usage({"status": {"flavorsReservation": reserved}})
    assert (used["p5", GPU], used["p5", "cpu"], borrowed["p5", GPU]) == (7, 1500, 3)
    assert usage(None) == ({}, {})


def test_who_lends_is_told_in_proportion_to_what_is_idle() -> None:
    idle = {"a": Quota({KEY: 4}), "b": Quota({KEY: 12})}
    assert lent(idle, Quota({KEY: 4})) == {"a": {KEY: 1}, "b": {KEY: 3}}


@pytest.mark.parametrize(
    ("unallocated", "strategy", "borrowed", "expected"),
    [
        pytest.param(4, "LendAndBorrow", 3, 0, id="unallocated capacity lends first"),
        pytest.param(4, "LendAndBorrow", 6, 2, id="then who lends"),
        pytest.param(4, "DontLend", 4, 0, id="who does not lend has nothing out"),
        pytest.param(4, "DontLend", 6, 2, id="unless it is out from before"),
    ],
)
def test_what_is_borrowed_comes_from(
    unallocated: int, strategy: str, borrowed: int, expected: int
) -> None:
    teams = [allocation("owner", sharing={"strategy": strategy}), allocation("borrower")]
    shares = Shares(
        {"owner": Quota({KEY: 8}), "borrower": Quota({KEY: 8})}, Quota({KEY: unallocated})
    )
    live: Any = {(CLUSTER_QUEUES, ("", "borrower")): {"status": reserves(8 + borrowed, borrowed)}}
    found = account(teams, shares, live, shares_unallocated=True)
    assert (found.lent["owner"][KEY], found.borrowed["borrower"][KEY]) == (expected, borrowed)


@pytest.mark.parametrize(
    ("borrowed", "limit"),
    [
        pytest.param(0, "0", id="nothing is out"),
        pytest.param(5, "5", id="what is out stays lent until it comes back"),
    ],
)
def test_who_stops_lending_cannot_use_at_once_what_others_hold(borrowed: int, limit: str) -> None:
    teams = [allocation("owner", sharing={"strategy": "DontLend"}), allocation("borrower")]
    nodes = [node("a"), node("b")]
    live = as_live(plan(seen(teams, nodes=nodes)), borrower=reserves(8 + borrowed, borrowed))
    decided = plan(seen(teams, nodes=nodes, live=live))
    assert amounts(queue(decided, "owner"))[GPU]["lendingLimit"] == limit


def test_unallocated_capacity_that_is_not_shared_lends_nothing() -> None:
    teams = [allocation("owner"), allocation("borrower")]
    nodes = [node("a"), node("b"), node("c")]
    live = as_live(plan(seen(teams, nodes=nodes)), borrower=reserves(12, 4))
    for shared, owner in ((True, 0), (False, 4)):
        found = plan(seen(teams, nodes=nodes, live=live, found=policy(shareUnallocated=shared)))
        assert found.account.lent["owner"][KEY] == owner


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 50)), st.integers(0, 200))
def test_nobody_lends_more_than_is_idle(idle: dict[str, int], borrowed: int) -> None:
    found = lent({n: Quota({KEY: v}) for n, v in idle.items()}, Quota({KEY: borrowed}))
    given_ = {name: quota[KEY] for name, quota in found.items()}
    assert all(given_[name] <= value for name, value in idle.items())
    assert sum(given_.values()) == min(borrowed, sum(idle.values()))


@pytest.mark.parametrize(
    ("sharing", "own_used", "others", "expected"),
    [
        pytest.param({}, 0, (0, 0), 20, id="all that is idle, unallocated too"),
        pytest.param({}, 8, (0, 0), 12, id="its own is used"),
        pytest.param({}, 0, (12, 4), 8, id="what others have borrowed is out"),
        pytest.param({}, 0, (20, 12), 0, id="all is out"),
        pytest.param({"borrowLimitPercent": 25}, 0, (0, 0), 10, id="its own and its limit"),
        pytest.param({"borrowLimitPercent": 25}, 9, (0, 0), 1, id="what is left of its limit"),
        pytest.param({"strategy": "Lend"}, 2, (0, 0), 6, id="its own only"),
        pytest.param({"strategy": "DontLend"}, 2, (12, 4), 6, id="its own, whatever others borrow"),
    ],
)
def test_what_the_next_job_could_have(
    sharing: Json, own_used: int, others: tuple[int, int], expected: int
) -> None:
    """Eight are the team's, eight another's, four nobody's."""
    team = allocation("owner", sharing=sharing)
    shares = Shares({"owner": Quota({KEY: 8}), "borrower": Quota({KEY: 8})}, Quota({KEY: 4}))
    live: Any = {
        (CLUSTER_QUEUES, ("", "owner")): {"status": reserves(own_used, max(0, own_used - 8))},
        (CLUSTER_QUEUES, ("", "borrower")): {"status": reserves(*others)},
    }
    found = account([team, allocation("borrower")], shares, live, shares_unallocated=True)
    limit = {"borrowLimitPercent": Quota({KEY: 2}), "strategy": Quota()}.get(
        next(iter(sharing), "")
    )
    assert free(team, shares.granted["owner"], limit, found)[KEY] == expected
