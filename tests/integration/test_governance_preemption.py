"""Who takes back, told by who is evicted: Cede while it leads, and Kueue by its own rules whenever
it does not."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from tests.integration.admin import Admin, condition, governed

pytestmark = pytest.mark.cluster
OWNER = "gov-owner"
BORROWER = "gov-borrower"
NEVER = {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}
STOCK = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


@pytest.fixture(scope="module")
def world(cluster: Any) -> Iterator[Admin]:
    with governed(cluster) as admin:
        admin.team(OWNER, 8)
        admin.team(BORROWER, 8)
        yield admin
        admin.remove(OWNER, BORROWER)


@pytest.fixture
def admin(world: Admin) -> Iterator[Admin]:
    """One team holds everything, half of it borrowed from the other."""
    world.policy()
    world.cluster.until(lambda: preemption(world) == NEVER, "Cede to lead", 120)
    world.submit(world.job(BORROWER, "borrower", 16, pods=16))
    world.runs(BORROWER, "borrower")
    yield world
    world.clear(OWNER, BORROWER)


def preemption(admin: Admin) -> dict[str, str]:
    found = admin.queue(OWNER)["spec"]["preemption"]
    return {name: found[name] for name in NEVER}


def claim(admin: Admin) -> None:
    admin.submit(admin.job(OWNER, "claim", 8, pods=8))


def kueue_takes_back(admin: Admin) -> None:
    admin.cluster.until(
        lambda: preemption(admin) == STOCK, "the queues to have Kueue's own preemption", 120
    )
    claim(admin)
    admin.runs(OWNER, "claim")
    assert admin.evicted(BORROWER, "borrower") == "Preempted"


def test_while_cede_leads_it_takes_back_and_kueue_itself_evicts_nobody(admin: Admin) -> None:
    """A job that is not elastic and has no runtime to ask is stopped, by Cede and on the record."""
    claim(admin)
    admin.runs(OWNER, "claim")
    assert preemption(admin) == NEVER
    assert not condition(admin.workloads(BORROWER)["borrower"], "Preempted"), (
        "Kueue's word for its own"
    )
    victims = [
        v
        for one in admin.cluster.kubectl_json("get", "cessions")["items"]
        for v in one["spec"]["targets"]
    ]
    assert ("borrower", "Stop") in {(victim["job"], victim["how"]) for victim in victims}


def test_in_mode_observe_kueue_takes_back_by_its_own_rules(admin: Admin) -> None:
    admin.policy(mode="Observe")
    kueue_takes_back(admin)


def test_without_a_leader_kueue_takes_back_after_the_watchdogs_time(admin: Admin) -> None:
    scheduler = ("deployment", names.SCHEDULER, "-n", names.SYSTEM_NAMESPACE)
    admin.cluster.kubectl("scale", *scheduler, "--replicas=0")
    try:
        kueue_takes_back(admin)
    finally:
        admin.cluster.kubectl("scale", *scheduler, "--replicas=1")
    admin.cluster.until(lambda: preemption(admin) == NEVER, "Cede to lead again", 120)


def test_after_cede_release_kueue_takes_back_by_its_own_rules(admin: Admin) -> None:
    words = [
        sys.executable,
        "-m",
        "cede.cli",
        "release",
        "--kubeconfig",
        str(admin.cluster.kubeconfig),
    ]
    done = subprocess.run(words, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    kueue_takes_back(admin)
