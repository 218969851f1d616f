"""Every figure of the books, from what was seen: whole numbers of accelerator-microseconds."""

from collections.abc import Mapping
from typing import Any

import pytest

from ledger.timeline import SECOND
from tests.builders.ledger import (
    DAY,
    KIND,
    NOW,
    Ledger,
    allocation,
    policy,
    seen_at,
    workload,
)

HOUR = 3600 * SECOND
MINUTE = 60 * SECOND


def after(*stages: tuple[int, Mapping[str, Any]]) -> Ledger:
    """What the books say after these stages: (how long, what is seen)."""
    ledger = Ledger()
    now = NOW
    for length, picture in stages:
        end = now + length
        while now < end:
            ledger.look(seen_at(now, **picture))
            now += min(20 * SECOND, end - now)
    ledger.look(seen_at(now, **stages[-1][1]))
    return ledger


BORROWS = {"workloads": [workload("gpt", pods=12)]}


@pytest.mark.parametrize(
    ("picture", "team", "expected"),
    [
        pytest.param(
            {"workloads": [workload("gpt", pods=4)]},
            "research",
            {"owned": 8, "available": 8, "used": 4, "borrowed": 0, "lent": 0, "private": 4},
            id="within its own quota",
        ),
        pytest.param(
            BORROWS,
            "research",
            {"owned": 8, "available": 8, "used": 12, "borrowed": 4, "lent": 0, "private": 8},
            id="beyond its own quota it borrows",
        ),
        pytest.param(
            BORROWS,
            "vision",
            {"owned": 8, "available": 8, "used": 0, "borrowed": 0, "lent": 4, "private": 0},
            id="what is borrowed is lent",
        ),
        pytest.param(
            {"allocations": [allocation("research", owned=8, available=6)]},
            "research",
            {"owned": 8, "available": 6},
            id="with nodes down a team owns more than it has",
        ),
        pytest.param(
            {"workloads": [workload("gpt", team="gone", pods=3)]},
            "gone",
            {"owned": 0, "available": 0, "used": 3, "borrowed": 3},
            id="jobs that outlive their allocation borrow all",
        ),
        pytest.param(
            {"workloads": [workload("gpt", team="cede-guard", pods=3)]},
            "cede-guard",
            {},
            id="a guard uses nothing",
        ),
        pytest.param(
            {"workloads": [workload("gpt", pods=3, active=False)]},
            "research",
            {"owned": 8, "available": 8, "used": 0, "borrowed": 0, "lent": 0, "private": 0},
            id="a stopped job has no quota, though its pods have not ended",
        ),
    ],
)
def test_what_a_team_has_in_an_hour(
    picture: dict[str, object], team: str, expected: dict[str, int]
) -> None:
    sums = after((HOUR, picture)).team(team)
    assert {name: sums[name] for name in expected} == {
        name: value * HOUR for name, value in expected.items()
    }
    if not expected:
        assert not sums


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        pytest.param(
            {"cluster_policy": policy(20), **BORROWS},
            {"capacity": 20, "unallocated": 4, "unallocated_lent": 4, "excess": 0},
            id="what nobody owns is lent first",
        ),
        pytest.param(
            {"cluster_policy": policy(20, shareUnallocated=False), **BORROWS},
            {"capacity": 20, "unallocated": 4, "unallocated_lent": 0, "excess": 0},
            id="unless the policy keeps it",
        ),
        pytest.param(
            {
                "cluster_policy": policy(8),
                "allocations": [allocation("research", 8, 4), allocation("vision", 8, 4)],
                **BORROWS,
            },
            {"capacity": 8, "unallocated": 0, "unallocated_lent": 0, "excess": 4},
            id="after a failure of nodes more is used than there is",
        ),
        pytest.param(
            {"cluster_policy": policy(8)},
            {"capacity": 16, "unallocated": 0},
            id="the status of the policy may be older than those of the allocations",
        ),
    ],
)
def test_what_the_pool_has_in_an_hour(picture: dict[str, object], expected: dict[str, int]) -> None:
    pool = after((HOUR, picture)).pool
    assert {name: pool[name] for name in expected} == {
        name: value * HOUR for name, value in expected.items()
    }


def test_a_team_that_does_not_lend_is_the_last_of_which_is_borrowed() -> None:
    allocations = [allocation("research", 4), allocation("vision", 4), allocation("own", 8)]
    allocations[2] = allocation("own", 8, strategy="DontLend")
    ledger = after((HOUR, {"allocations": allocations, "workloads": [workload("gpt", pods=10)]}))
    assert ledger.team("vision")["lent"] == 4 * HOUR
    assert ledger.team("own")["lent"] == 2 * HOUR


def test_the_oldest_jobs_have_the_own_quota() -> None:
    older = workload("older", pods=6)
    younger = workload("younger", pods=6, since=NOW + MINUTE)
    ledger = after((HOUR, {"workloads": [younger, older]}))
    assert (ledger.job("older")["used"], ledger.job("older")["borrowed"]) == (6 * HOUR, 0)
    assert (ledger.job("younger")["used"], ledger.job("younger")["borrowed"]) == (
        6 * HOUR,
        4 * HOUR,
    )


def test_a_resize_counts_from_the_moment_it_is_seen() -> None:
    stages = [(HOUR, {"workloads": [workload("gpt", pods=pods)]}) for pods in (8, 2, 6)]
    assert after(*stages).job("gpt")["used"] == (8 + 2 + 6) * HOUR


def test_a_scale_up_takes_the_place_of_what_it_replaces() -> None:
    """For a moment both Workloads have quota."""
    old = workload("gpt", pods=4)
    new = workload("gpt-2", pods=6, replaces="gpt", job="gpt")
    waiting = workload("gpt-2", pods=6, replaces="gpt", job="gpt", waits=True)
    ledger = after((HOUR, {"workloads": [old, waiting]}), (HOUR, {"workloads": [old, new]}))
    assert ledger.job("gpt")["used"] == (4 + 6) * HOUR


@pytest.mark.parametrize(
    ("stages", "private", "used"),
    [
        pytest.param([12, 0], 8 + 4, 12, id="a partition would have run it later"),
        pytest.param([12, 8], 8 + 8, 20, id="it would not have had time for it yet"),
        pytest.param([0, 12], 0 + 8, 12, id="nor before it came"),
        pytest.param([12, 6, 6], 8 + 8 + 8, 24, id="it makes up as far as it has room"),
    ],
)
def test_what_a_private_partition_would_have_run(
    stages: list[int], private: int, used: int
) -> None:
    pictures = [(HOUR, {"workloads": [workload("gpt", pods=pods)]}) for pods in stages]
    sums = after(*pictures).team("research")
    assert (sums["private"], sums["used"]) == (private * HOUR, used * HOUR)


def test_a_day_ends_at_midnight() -> None:
    ledger = Ledger(NOW - HOUR)
    for now in range(NOW - HOUR, NOW + HOUR + 1, 20 * SECOND):
        ledger.look(seen_at(now, workloads=[workload("gpt", pods=4)]))
    by_day = {day: sums["used"] for (day, _), sums in ledger.total.teams.items() if sums["used"]}
    assert by_day == {"2026-11-19": 4 * HOUR, DAY: 4 * HOUR}


def test_other_resources_and_other_types_are_not_counted() -> None:
    """Such as those of queues that have nothing to do with Cede."""
    theirs = workload("theirs", team="theirs", flavor="their-nodes")
    ledger = after((HOUR, {"workloads": [workload("gpt", pods=4), theirs]}))
    assert {kind for _, kind in ledger.total.pools} == {KIND}
    assert {kind for _, (_, kind) in ledger.total.teams} == {KIND}
