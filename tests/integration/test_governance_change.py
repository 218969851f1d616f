"""What a change does to running work: the rows of the README's table, on a real Kueue. Nothing that
runs is stopped by any of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from tests.integration.admin import CLASSES, POLICY, TYPE, Admin, condition, file, governed

pytestmark = pytest.mark.cluster
A = "gov-left"
B = "gov-right"


@pytest.fixture(scope="module")
def world(cluster: Any) -> Iterator[Admin]:
    with governed(cluster) as admin:
        yield admin
        admin.remove(A, B)


@pytest.fixture
def admin(world: Admin) -> Iterator[Admin]:
    """Eight accelerators each; right's job `runs` on twelve, four of them left's."""
    world.policy()
    world.team(A, 8)
    world.team(B, 8)
    world.submit(world.job(B, "runs", 12, pods=12))
    world.runs(B, "runs")
    world.cluster.until(
        lambda: world.allocation(A)["status"]["lent"] == "4 gpu",
        "the status to say what is lent",
        120,
    )
    yield world
    world.clear(A, B)


def runs_on(admin: Admin, job: str = "runs") -> None:
    found = admin.workloads(B)[job]
    assert condition(found, "Admitted").get("status") == "True"
    assert not admin.evicted(B, job)


def test_more_quota_admits_what_waits(admin: Admin) -> None:
    admin.policy(shareUnallocated=False)
    admin.team(A, 4, sharing={"strategy": "Lend"})
    admin.team(B, 8, sharing={"strategy": "Lend"})
    admin.submit(admin.job(A, "six", 6, pods=6))
    admin.waits(A, "six")
    admin.team(A, 6, sharing={"strategy": "Lend"})
    admin.team(B, 2)
    admin.cancel(B, "runs")
    admin.runs(A, "six")


def test_less_quota_than_is_used_lets_it_run_and_admits_nothing_new(admin: Admin) -> None:
    admin.policy(shareUnallocated=False)
    admin.team(B, 2)
    admin.cluster.until(
        lambda: admin.allocation(B)["status"]["borrowed"] == "10 gpu",
        "what is used to be borrowed now",
        120,
    )
    runs_on(admin)
    admin.submit(admin.job(B, "new", 1))
    admin.waits(B, "new")
    runs_on(admin)


def test_a_lower_borrowing_limit_lets_run_what_is_borrowed(admin: Admin) -> None:
    admin.team(B, 8, sharing={"borrowLimitPercent": 25})
    admin.cluster.until(
        lambda: admin.limit(B, "borrowingLimit") == "2", "the limit to be in the queue", 120
    )
    admin.submit(admin.job(B, "new", 1))
    admin.waits(B, "new")
    runs_on(admin)


def test_who_stops_lending_gets_it_back_as_borrowers_end(admin: Admin) -> None:
    admin.team(A, 8, sharing={"strategy": "DontLend"})
    admin.cluster.until(
        lambda: admin.limit(A, "lendingLimit") == "4", "what is out to stay lent", 120
    )
    runs_on(admin)
    admin.submit(admin.job(B, "new", 1))
    admin.waits(B, "new")
    admin.clear(B)
    admin.cluster.until(lambda: admin.limit(A, "lendingLimit") == "0", "it to be back", 120)
    admin.submit(admin.job(B, "nine", 9, pods=9))
    admin.waits(B, "nine")


def test_a_renamed_team_keeps_its_namespace_and_its_work(admin: Admin) -> None:
    admin.team(B, 8, team="gov-renamed")
    namespace = admin.cluster.kubectl_json("get", "namespace", B)
    assert namespace["metadata"]["labels"][names.TEAM] == "gov-renamed"
    runs_on(admin)
    admin.submit(admin.job(B, "new", 1))
    admin.runs(B, "new")


def test_work_of_a_type_that_leaves_the_policy_runs_on_and_nothing_new_is_admitted(
    admin: Admin,
) -> None:
    admin.policy(
        instanceTypes=[{"name": "gov-other", "accelerators": 8, "cpu": "192", "memory": "2Ti"}]
    )
    admin.says(B, f"the policy has no instance type {TYPE}")
    runs_on(admin)
    admin.submit(admin.job(B, "new", 1))
    admin.cluster.until(lambda: "new" in admin.workloads(B), "its workload", 120)
    admin.waits(B, "new")
    runs_on(admin)
    admin.policy()
    admin.runs(B, "new")


def test_a_class_that_leaves_the_policy_is_kept_by_what_runs_and_refused_to_what_is_new(
    admin: Admin,
) -> None:
    admin.submit(admin.job(B, "sweeps", 1, "sweep"))
    admin.runs(B, "sweeps")
    admin.policy(priorityClasses=[one for one in CLASSES if one["name"] != "sweep"])
    classes = ("get", "workloadpriorityclass", "-o", "name")
    admin.cluster.until(
        lambda: "sweep" not in admin.cluster.kubectl(*classes), "the class to go", 120
    )
    runs_on(admin, "sweeps")

    def refused() -> str:
        try:
            admin.cluster.kubectl(
                "create",
                "--dry-run=server",
                "-f",
                "-",
                stdin=file(admin.job(B, "late", 1, "sweep")),
            )
        except AssertionError as error:
            return str(error)
        return ""

    said = admin.cluster.until(refused, "the webhook to know", 120)
    assert "'sweep', which is no priority class here: use inference or training" in said


def test_an_inactive_allocation_lets_run_what_runs_and_admits_nothing(admin: Admin) -> None:
    admin.team(B, 8, active=False)
    admin.says(B, "nothing new is admitted, what runs goes on to its end")
    admin.submit(admin.job(B, "new", 1))
    admin.cluster.until(lambda: "new" in admin.workloads(B), "its workload", 120)
    admin.waits(B, "new")
    runs_on(admin)
    admin.team(B, 8)
    admin.runs(B, "new")


def test_a_deleted_allocation_waits_for_its_work_and_says_so(admin: Admin) -> None:
    admin.cluster.kubectl("delete", "computeallocation", B, "--wait=false")
    admin.says(B, "1 workload still holds its quota")
    runs_on(admin)
    admin.clear(B)
    admin.cluster.until(
        lambda: B not in admin.cluster.kubectl("get", "computeallocation", "-o", "name"),
        "it to go",
        120,
    )
    assert B not in admin.cluster.kubectl("get", "clusterqueue", "-o", "name")
    assert B in admin.cluster.kubectl("get", "namespace", "-o", "name"), (
        "the namespace and what is in it stay"
    )


def test_without_a_policy_quotas_stay_as_they_are_and_kueue_takes_back(admin: Admin) -> None:
    def quotas() -> Any:
        return {key: value for key, value in admin.queue(B)["spec"].items() if key != "preemption"}

    before = quotas()
    admin.cluster.kubectl("delete", "clusterpolicy", names.POLICY_NAME)
    admin.says(B, "until then all quotas stay as they are")
    assert quotas() == before
    runs_on(admin)
    admin.submit(admin.job(A, "mine", 8))
    admin.runs(A, "mine")
    assert admin.evicted(B, "runs") == "Preempted", "there is nobody else to ask for it"
    admin.policy(**POLICY)
