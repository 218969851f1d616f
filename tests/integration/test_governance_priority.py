"""Whose job goes first: priority classes, their weights, the order of the policy, a team's own
rules; as a real Kueue admits."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api.objects import unix
from tests.integration.admin import CLASSES, Admin, condition, governed

pytestmark = pytest.mark.cluster
TEAM = "gov-team"


@pytest.fixture(scope="module")
def world(cluster: Any) -> Iterator[Admin]:
    with governed(cluster) as admin:
        admin.team(TEAM, 8)
        yield admin
        admin.remove(TEAM)


@pytest.fixture
def admin(world: Admin) -> Iterator[Admin]:
    """A team of eight accelerators that borrows nothing, all held by one job of the highest
    class."""
    world.policy()
    world.team(TEAM, 8, sharing={"strategy": "Lend"})
    world.submit(world.job(TEAM, "blocker", 8, "inference", pods=8))
    world.runs(TEAM, "blocker")
    yield world
    world.clear(TEAM)


def in_turn(admin: Admin, *priorities: str) -> None:
    """A job of each class waits, each of all the team owns; one after the other, as Kueue counts:
    in whole seconds."""
    for priority in priorities:
        admin.submit(admin.job(TEAM, priority, 8, priority, pods=8))
        admin.cluster.until(lambda: priority in admin.workloads(TEAM), "its workload", 120)  # noqa: B023
        made = admin.workloads(TEAM)[priority]["metadata"]["creationTimestamp"]
        admin.cluster.until(lambda: time.time() >= unix(made) + 1, "its second to be over", 5)  # noqa: B023
    admin.waits(TEAM, priorities[0])


@pytest.mark.parametrize(
    ("ordering", "first"),
    [
        pytest.param("Priority", "training", id="the most important first"),
        pytest.param("FirstCome", "sweep", id="the oldest first"),
    ],
)
def test_the_order_of_the_policy_is_the_order_of_admission(
    admin: Admin, ordering: str, first: str
) -> None:
    admin.policy(ordering=ordering)
    in_turn(admin, "sweep", "training")
    admin.cancel(TEAM, "blocker")
    admin.runs(TEAM, first)
    assert admin.admitted(TEAM) == {first}


def test_a_changed_weight_reaches_what_waits(admin: Admin) -> None:
    in_turn(admin, "sweep", "training")
    classes = [{**one, "weight": 60} if one["name"] == "sweep" else one for one in CLASSES]
    admin.policy(priorityClasses=classes)
    admin.cluster.until(
        lambda: admin.workloads(TEAM)["sweep"]["spec"]["priority"] == 60,
        "the new weight to arrive",
        120,
    )
    admin.cancel(TEAM, "blocker")
    admin.runs(TEAM, "sweep")
    assert admin.admitted(TEAM) == {"sweep"}


def test_a_job_that_names_no_class_gets_the_policys_default(admin: Admin) -> None:
    admin.submit(admin.job(TEAM, "plain", 1))
    admin.waits(TEAM, "plain")
    assert admin.workloads(TEAM)["plain"]["spec"]["priorityClassRef"]["name"] == "training"


def test_a_class_above_the_ceiling_is_refused_with_those_allowed(admin: Admin) -> None:
    admin.team(TEAM, 8, sharing={"strategy": "Lend"}, maxPriorityClass="training")
    with pytest.raises(
        AssertionError, match="above what team gov-team may use: use training or sweep"
    ):
        admin.submit(admin.job(TEAM, "important", 1, "inference"))


@pytest.mark.parametrize("mode", ["Enforce", "Observe"])
@pytest.mark.parametrize("own", ["LowerPriority", "Never"])
def test_whether_a_teams_important_job_takes_from_its_lesser_ones(
    admin: Admin, own: str, mode: str
) -> None:
    """Cede does it in mode Enforce, Kueue in mode Observe; the team's own word holds for both."""
    admin.policy(mode=mode)
    admin.team(TEAM, 8, sharing={"strategy": "Lend"}, preemptOwnTasks=own)
    admin.clear(TEAM)
    admin.submit(admin.job(TEAM, "lesser", 8, "sweep", pods=8))
    admin.runs(TEAM, "lesser")
    admin.submit(admin.job(TEAM, "important", 8, "inference", pods=8))
    if own == "LowerPriority":
        admin.runs(TEAM, "important")
        # Kueue counts what is stopped as free about a second before the Workload itself says so.
        admin.cluster.until(
            lambda: admin.admitted(TEAM) == {"important"}, "the lesser to have left", 15
        )
        by_kueue = condition(admin.workloads(TEAM)["lesser"], "Preempted").get("reason")
        assert by_kueue == ("InClusterQueue" if mode == "Observe" else None)
    else:
        admin.waits(TEAM, "important")
        assert not admin.evicted(TEAM, "lesser")
