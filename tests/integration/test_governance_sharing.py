"""The lending and borrowing terms of an allocation decide what a real Kueue admits."""

from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from tests.integration.admin import TYPE, Admin, condition_of, governed, kubectl_list, node
from tests.marks import LONG

pytestmark = pytest.mark.cluster
TEAM_A = "gov-a"
TEAM_B = "gov-b"


@pytest.fixture(scope="module")
def governed_cluster(cluster: Any) -> Iterator[Admin]:
    with governed(cluster) as admin:
        admin.apply_team(TEAM_A, 8)
        admin.apply_team(TEAM_B, 8)
        yield admin
        admin.delete_teams(TEAM_A, TEAM_B)


@pytest.fixture
def admin(governed_cluster: Admin) -> Iterator[Admin]:
    """Sixteen accelerators, eight for each of two teams, and no job runs."""
    admin = governed_cluster
    admin.apply_policy()
    admin.apply_team(TEAM_A, 8)
    admin.apply_team(TEAM_B, 8)
    yield admin
    admin.delete_jobs(TEAM_A, TEAM_B)


def assert_most(admin: Admin, most: int) -> None:
    """Team B gets this many accelerators and not one more."""
    if most < 16:
        admin.submit(admin.job(TEAM_B, "too-much", most + 1, pods=most + 1))
        admin.wait_until_pending(TEAM_B, "too-much")
        admin.delete_jobs(TEAM_B)
    admin.submit(admin.job(TEAM_B, "all", most, pods=most))
    admin.wait_for_admission(TEAM_B, "all")


@pytest.mark.parametrize(
    ("lender", "borrower", "most"),
    [
        pytest.param({}, {}, 16, id="lends and borrows without limit"),
        pytest.param({}, {"strategy": "Lend"}, 8, id="Lend borrows nothing"),
        pytest.param({"strategy": "Lend"}, {}, 16, id="Lend lends"),
        pytest.param({"strategy": "DontLend"}, {}, 8, id="DontLend lends nothing"),
        pytest.param({}, {"strategy": "DontLend"}, 8, id="DontLend borrows nothing"),
        pytest.param({}, {"borrowLimitPercent": 25}, 10, id="a limit in percent of what is owned"),
        pytest.param(
            {},
            {"borrowLimits": [{"instanceType": TYPE, "accelerators": 3}]},
            11,
            id="a limit in amounts",
        ),
    ],
)
def test_how_much_a_team_can_use(
    admin: Admin, lender: dict[str, Any], borrower: dict[str, Any], most: int
) -> None:
    admin.apply_team(TEAM_A, 8, sharing=lender)
    admin.apply_team(TEAM_B, 8, sharing=borrower)
    if lender.get("strategy") == "DontLend":
        admin.cluster.until(
            lambda: admin.accelerator_quota(TEAM_A, "lendingLimit") == "0",
            "quota lent in the last test to be returned",
            120,
        )
    assert_most(admin, most)
    expected = f"{most - 8} gpu"
    admin.cluster.until(
        lambda: admin.allocation(TEAM_B)["status"]["borrowed"] == expected,
        "the status to report what is borrowed",
        120,
    )
    admin.cluster.until(
        lambda: admin.allocation(TEAM_A)["status"]["lent"] == expected,
        "the status to report what is lent",
        120,
    )


def test_the_allocation_reports_usage_and_why_a_job_waits(admin: Admin) -> None:
    admin.apply_team(TEAM_B, 8, sharing={"strategy": "Lend"})
    admin.submit(admin.job(TEAM_B, "runs", 6, pods=6))
    admin.wait_for_admission(TEAM_B, "runs")
    admin.submit(admin.job(TEAM_B, "next", 3, pods=3))
    admin.wait_until_pending(TEAM_B, "next")

    def admits_message() -> str:
        return str(condition_of(admin.allocation(TEAM_B), "Admits").get("message", ""))

    expected = f"1 workload waits: the team's next job could use 2 {names.GPU}"
    admin.cluster.until(
        lambda: admits_message().startswith(expected), "the status to report why", 120
    )
    description = admin.cluster.kubectl("describe", "computeallocation", TEAM_B)
    for fragment in ("Owns:", "8 gpu", "Used:", "6 gpu", "WorkloadsPending", "cede explain JOB"):
        assert fragment in description
    admin.delete_job(TEAM_B, "next")
    admin.cluster.until(
        lambda: admits_message() == "no workload waits", "the status to report no waiting job", 120
    )


# --- unallocated capacity -------------------------------------------------------------------------
@pytest.mark.parametrize(("shared", "most"), [(True, 16), (False, 8)], ids=["shared", "not shared"])
def test_unallocated_capacity_is_borrowed_only_if_the_policy_shares_it(
    admin: Admin, shared: bool, most: int
) -> None:
    admin.apply_policy(shareUnallocated=shared)
    admin.apply_team(TEAM_A, 4)
    admin.apply_team(TEAM_B, 4)
    admin.submit(admin.job(TEAM_B, "too-much", most + 1, pods=most + 1))
    admin.wait_until_pending(TEAM_B, "too-much")
    admin.delete_jobs(TEAM_B)
    admin.submit(admin.job(TEAM_B, "all", most, pods=most))
    admin.wait_for_admission(TEAM_B, "all")


@pytest.mark.parametrize(
    ("remove", "restore"),
    [
        pytest.param(["cordon", "gov-2"], ["uncordon", "gov-2"], id="cordoned"),
        pytest.param(["delete", "node", "gov-2"], ["create", "-f", "-"], id="deleted and created"),
    ],
)
def test_unallocated_capacity_follows_the_nodes(
    admin: Admin, remove: list[str], restore: list[str]
) -> None:
    admin.apply_team(TEAM_A, 4)
    admin.apply_team(TEAM_B, 4)
    admin.cluster.kubectl(*remove)
    try:
        admin.cluster.until(
            lambda: unallocated_accelerators(admin) == "0", "the cohort to have no quota", 20
        )
        admin.submit(admin.job(TEAM_B, "nine", 9, pods=9))
        admin.wait_until_pending(TEAM_B, "nine")
    finally:
        admin.cluster.kubectl(*restore, stdin=kubectl_list(node("gov-2")))
    admin.wait_for_admission(TEAM_B, "nine")
    assert unallocated_accelerators(admin) == "8"


def unallocated_accelerators(admin: Admin) -> str:
    """Accelerators of the Cohort itself."""
    [group] = admin.cluster.kubectl_json("get", "cohort", names.COHORT)["spec"]["resourceGroups"]
    [flavor] = [flavor for flavor in group["flavors"] if flavor["name"] == TYPE]
    [entry] = [entry for entry in flavor["resources"] if entry["name"] == names.GPU]
    return str(entry["nominalQuota"])


# --- weights --------------------------------------------------------------------------------------
@LONG
@pytest.mark.parametrize(
    ("idle_compute", "expected"),
    [
        pytest.param("FairShare", range(12, 15), id="by weight, three to one"),
        pytest.param("FirstCome", range(7, 10), id="without weights"),
    ],
)
def test_weights_decide_who_gets_freed_capacity(
    admin: Admin, idle_compute: str, expected: range
) -> None:
    """In each cycle Kueue admits the first job of every queue that fits, so teams get about the
    same; weights decide who gets the last place. Twelve of sixteen is three to one; a cycle that
    begins before Kueue has put the jobs of B back into their queue gives A a place more."""
    admin.apply_policy(idleCompute=idle_compute)
    admin.apply_team(TEAM_A, 0, fairShareWeight=75)
    admin.apply_team(TEAM_B, 0, fairShareWeight=25)
    jobs = [admin.job(team, f"j{n}", 1) for n in range(18) for team in (TEAM_B, TEAM_A)]
    admin.submit(*jobs)
    wait_until_all_are_used(admin)
    for _ in range(8):
        admin.delete_job(TEAM_B, min(admin.admitted_jobs(TEAM_B)))
        wait_until_all_are_used(admin)
    assert len(admin.admitted_jobs(TEAM_A)) in expected


def wait_until_all_are_used(admin: Admin) -> None:
    admin.cluster.until(
        lambda: sum(len(admin.admitted_jobs(team)) for team in (TEAM_A, TEAM_B)) == 16,
        "all sixteen accelerators to be used",
        120,
    )
