"""What an allocation says of lending and borrowing decides what a real Kueue admits."""

from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from tests.integration.admin import TYPE, Admin, condition, file, governed, node

pytestmark = pytest.mark.cluster
A = "gov-a"
B = "gov-b"


@pytest.fixture(scope="module")
def world(cluster: Any) -> Iterator[Admin]:
    with governed(cluster) as admin:
        admin.team(A, 8)
        admin.team(B, 8)
        yield admin
        admin.remove(A, B)


@pytest.fixture
def admin(world: Admin) -> Iterator[Admin]:
    """Sixteen accelerators, eight to each of two teams, and nothing runs."""
    world.policy()
    world.team(A, 8)
    world.team(B, 8)
    yield world
    world.clear(A, B)


@pytest.mark.parametrize(
    ("lender", "borrower", "most"),
    [
        pytest.param({}, {}, 16, id="lends and borrows without limit"),
        pytest.param({}, {"strategy": "Lend"}, 8, id="who only lends borrows nothing"),
        pytest.param({"strategy": "Lend"}, {}, 16, id="who only lends, lends"),
        pytest.param(
            {"strategy": "DontLend"}, {}, 8, id="of who does not lend nothing is borrowed"
        ),
        pytest.param({}, {"strategy": "DontLend"}, 8, id="who shares nothing borrows nothing"),
        pytest.param({}, {"borrowLimitPercent": 25}, 10, id="a limit in percent of what is owned"),
        pytest.param(
            {},
            {"borrowLimits": [{"instanceType": TYPE, "accelerators": 3}]},
            11,
            id="a limit by amounts",
        ),
    ],
)
def test_how_much_a_team_can_hold(
    admin: Admin, lender: dict[str, Any], borrower: dict[str, Any], most: int
) -> None:
    admin.team(A, 8, sharing=lender)
    admin.team(B, 8, sharing=borrower)
    if lender.get("strategy") == "DontLend":
        admin.cluster.until(
            lambda: admin.limit(A, "lendingLimit") == "0",
            "nothing of the last test's to be lent",
            120,
        )
    if most < 16:
        admin.submit(admin.job(B, "too-much", most + 1, pods=most + 1))
        admin.waits(B, "too-much")
        admin.clear(B)
    admin.submit(admin.job(B, "all", most, pods=most))
    admin.runs(B, "all")
    admin.cluster.until(
        lambda: admin.allocation(B)["status"]["borrowed"] == f"{most - 8} gpu",
        "the status to say what is borrowed",
        120,
    )
    admin.cluster.until(
        lambda: admin.allocation(A)["status"]["lent"] == f"{most - 8} gpu",
        "the status to say what is lent",
        120,
    )


def test_who_reads_the_allocation_knows_what_is_used_and_why_the_next_job_waits(
    admin: Admin,
) -> None:
    admin.team(B, 8, sharing={"strategy": "Lend"})
    admin.submit(admin.job(B, "runs", 6, pods=6))
    admin.runs(B, "runs")
    admin.submit(admin.job(B, "next", 3, pods=3))
    admin.waits(B, "next")

    def admits() -> str:
        return str(condition(admin.allocation(B), "Admits").get("message", ""))

    admin.cluster.until(
        lambda: admits().startswith(f"1 workload waits: its next job could have 2 {names.GPU}"),
        "the reason",
        120,
    )
    described = admin.cluster.kubectl("describe", "computeallocation", B)
    assert all(
        words in described
        for words in ("Owns:", "8 gpu", "Used:", "6 gpu", "WorkWaits", "cede explain JOB")
    )
    admin.cancel(B, "next")
    admin.cluster.until(
        lambda: admits() == "no workload waits", "it to say that nothing waits", 120
    )


@pytest.mark.parametrize(("shared", "most"), [(True, 16), (False, 8)], ids=["shared", "not shared"])
def test_what_is_in_no_allocation_may_be_borrowed_if_the_policy_says_so(
    admin: Admin, shared: bool, most: int
) -> None:
    admin.policy(shareUnallocated=shared)
    admin.team(A, 4)
    admin.team(B, 4)
    admin.submit(admin.job(B, "more", most + 1, pods=most + 1))
    admin.waits(B, "more")
    admin.clear(B)
    admin.submit(admin.job(B, "all", most, pods=most))
    admin.runs(B, "all")


@pytest.mark.parametrize(
    ("away", "back"),
    [
        pytest.param(["cordon", "gov-2"], ["uncordon", "gov-2"], id="cordoned"),
        pytest.param(["delete", "node", "gov-2"], None, id="gone and come"),
    ],
)
def test_unallocated_capacity_follows_the_nodes(
    admin: Admin, away: list[str], back: list[str] | None
) -> None:
    admin.team(A, 4)
    admin.team(B, 4)
    admin.cluster.kubectl(*away)
    try:
        admin.cluster.until(
            lambda: unallocated(admin) == "0", "the cohort to have nothing of its own", 20
        )
        admin.submit(admin.job(B, "nine", 9, pods=9))
        admin.waits(B, "nine")
    finally:
        if back:
            admin.cluster.kubectl(*back)
        else:
            admin.cluster.kubectl("create", "-f", "-", stdin=file(node("gov-2")))
    admin.runs(B, "nine")
    assert unallocated(admin) == "8"


def unallocated(admin: Admin) -> str:
    """Accelerators that are the Cohort's own."""
    [group] = admin.cluster.kubectl_json("get", "cohort", names.COHORT)["spec"]["resourceGroups"]
    [flavor] = [one for one in group["flavors"] if one["name"] == TYPE]
    [found] = [one for one in flavor["resources"] if one["name"] == names.GPU]
    return str(found["nominalQuota"])


@pytest.mark.parametrize(
    ("idle", "most"),
    [
        pytest.param("FairShare", (12, 12), id="by weight, three to one"),
        pytest.param("FirstCome", (7, 9), id="weights are not asked"),
    ],
)
def test_who_gets_the_place_that_becomes_free(
    admin: Admin, idle: str, most: tuple[int, int]
) -> None:
    """Kueue admits the head of every queue that fits in a cycle, so all comes out about even;
    weights decide who gets a last place."""
    admin.policy(idleCompute=idle)
    admin.team(A, 0, fairShareWeight=75)
    admin.team(B, 0, fairShareWeight=25)
    admin.submit(*(admin.job(team, f"j{n}", 1) for n in range(18) for team in (B, A)))
    for _ in range(8):
        admin.cluster.until(
            lambda: len(admin.admitted(A)) + len(admin.admitted(B)) == 16,
            "all sixteen to be given out",
            120,
        )
        admin.cancel(B, min(admin.admitted(B)))
    admin.cluster.until(
        lambda: len(admin.admitted(A)) + len(admin.admitted(B)) == 16,
        "all sixteen to be given out",
        120,
    )
    assert most[0] <= len(admin.admitted(A)) <= most[1]
