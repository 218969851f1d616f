"""Which job is admitted first by a real Kueue: classes, weights, the policy's order, team rules."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api.objects import unix
from tests.integration.admin import CLASSES, Admin, condition_of, governed

pytestmark = pytest.mark.cluster
TEAM = "gov-team"


@pytest.fixture(scope="module")
def governed_cluster(cluster: Any) -> Iterator[Admin]:
    with governed(cluster) as admin:
        admin.apply_team(TEAM, 8)
        yield admin
        admin.delete_teams(TEAM)


@pytest.fixture
def admin(governed_cluster: Admin) -> Iterator[Admin]:
    """A team that borrows nothing; one job of the highest class uses its eight accelerators."""
    admin = governed_cluster
    admin.apply_policy()
    admin.apply_team(TEAM, 8, sharing={"strategy": "Lend"})
    admin.submit(admin.job(TEAM, "blocker", 8, "inference", pods=8))
    admin.wait_for_admission(TEAM, "blocker")
    yield admin
    admin.delete_jobs(TEAM)


def submit_in_order(admin: Admin, *classes: str) -> None:
    """Submits a job of each class that needs all of the quota; each is a second older than the
    next, because Kueue compares whole seconds."""
    for class_ in classes:
        admin.submit(admin.job(TEAM, class_, 8, class_, pods=8))
        admin.wait_for_workload(TEAM, class_)
        wait_until_a_second_old(admin, class_)
    admin.wait_until_pending(TEAM, classes[0])


def wait_until_a_second_old(admin: Admin, job: str) -> None:
    created = unix(admin.workloads_by_job(TEAM)[job]["metadata"]["creationTimestamp"])
    admin.cluster.until(lambda: time.time() >= created + 1, "the next second", 5)


@pytest.mark.parametrize(
    ("ordering", "first"),
    [
        pytest.param("Priority", "training", id="the highest weight first"),
        pytest.param("FirstCome", "sweep", id="the oldest first"),
    ],
)
def test_the_policys_ordering_decides_who_is_admitted(
    admin: Admin, ordering: str, first: str
) -> None:
    admin.apply_policy(ordering=ordering)
    submit_in_order(admin, "sweep", "training")
    admin.delete_job(TEAM, "blocker")
    admin.wait_for_admission(TEAM, first)
    assert admin.admitted_jobs(TEAM) == {first}


def test_a_changed_weight_applies_to_waiting_jobs(admin: Admin) -> None:
    submit_in_order(admin, "sweep", "training")
    classes = [{**c, "weight": 60} if c["name"] == "sweep" else c for c in CLASSES]
    admin.apply_policy(priorityClasses=classes)
    admin.cluster.until(
        lambda: admin.workloads_by_job(TEAM)["sweep"]["spec"]["priority"] == 60,
        "the new weight in the Workload",
        120,
    )
    admin.delete_job(TEAM, "blocker")
    admin.wait_for_admission(TEAM, "sweep")
    assert admin.admitted_jobs(TEAM) == {"sweep"}


def test_a_job_without_a_class_gets_the_default(admin: Admin) -> None:
    admin.submit(admin.job(TEAM, "plain", 1))
    admin.wait_until_pending(TEAM, "plain")
    spec = admin.workloads_by_job(TEAM)["plain"]["spec"]
    assert spec["priorityClassRef"]["name"] == "training"


def test_a_class_above_the_teams_maximum_is_refused(admin: Admin) -> None:
    admin.apply_team(TEAM, 8, sharing={"strategy": "Lend"}, maxPriorityClass="training")
    message = "above what team gov-team may use: use training or sweep"
    with pytest.raises(AssertionError, match=message):
        admin.submit(admin.job(TEAM, "important", 1, "inference"))


@pytest.mark.parametrize("mode", ["Enforce", "Observe"])
@pytest.mark.parametrize("preempt_own", ["LowerPriority", "Never"])
def test_preemption_within_a_team_is_the_teams_choice(
    admin: Admin, preempt_own: str, mode: str
) -> None:
    """Cede preempts in mode Enforce and Kueue in mode Observe; the choice holds for both."""
    admin.apply_policy(mode=mode)
    admin.apply_team(TEAM, 8, sharing={"strategy": "Lend"}, preemptOwnTasks=preempt_own)
    admin.delete_jobs(TEAM)
    admin.submit(admin.job(TEAM, "lesser", 8, "sweep", pods=8))
    admin.wait_for_admission(TEAM, "lesser")
    admin.submit(admin.job(TEAM, "important", 8, "inference", pods=8))
    if preempt_own == "Never":
        admin.wait_until_pending(TEAM, "important")
        assert not admin.eviction_reason(TEAM, "lesser")
        return
    admin.wait_for_admission(TEAM, "important")
    # Kueue frees the quota about a second before the stopped Workload reports it.
    admin.cluster.until(
        lambda: admin.admitted_jobs(TEAM) == {"important"}, "the lesser job to be stopped", 15
    )
    preempted = condition_of(admin.workloads_by_job(TEAM)["lesser"], "Preempted")
    expected = "InClusterQueue" if mode == "Observe" else None
    assert preempted.get("reason") == expected
