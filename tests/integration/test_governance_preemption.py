"""Cede preempts while it leads, and Kueue by its own rules whenever it does not."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from tests.integration.admin import TIMEOUT_S, Admin, condition_of, governed
from tests.integration.claims import submit_elastic

pytestmark = pytest.mark.cluster
OWNER = "gov-owner"
BORROWER = "gov-borrower"
OFF = {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}
KUEUES_OWN = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


@pytest.fixture(scope="module")
def governed_cluster(cluster: Any) -> Iterator[Admin]:
    with governed(cluster) as admin:
        admin.apply_team(OWNER, 8)
        admin.apply_team(BORROWER, 8)
        yield admin
        admin.delete_teams(OWNER, BORROWER)


@pytest.fixture
def admin(governed_cluster: Admin) -> Iterator[Admin]:
    """One team uses all accelerators and borrows half of them from the other."""
    admin = governed_cluster
    admin.apply_policy()
    wait_until_cede_leads(admin)
    admin.submit(admin.job(BORROWER, "borrower", 16, pods=16))
    admin.wait_for_admission(BORROWER, "borrower")
    yield admin
    admin.delete_jobs(OWNER, BORROWER)


def preemption(admin: Admin) -> dict[str, str]:
    """The preemption of the owner's queue."""
    settings = admin.cluster_queue(OWNER)["spec"]["preemption"]
    return {name: settings[name] for name in OFF}


def wait_until_cede_leads(admin: Admin) -> None:
    admin.cluster.until(lambda: preemption(admin) == OFF, "Cede to lead", 120)


def reclaim(admin: Admin) -> None:
    """Submits a job that needs all that the owner owns, and waits until it is admitted."""
    admin.submit(admin.job(OWNER, "claim", 8, pods=8))
    admin.wait_for_admission(OWNER, "claim")


def assert_kueue_preempts(admin: Admin) -> None:
    admin.cluster.until(
        lambda: preemption(admin) == KUEUES_OWN, "the queues to have Kueue's own preemption", 120
    )
    reclaim(admin)
    assert admin.eviction_reason(BORROWER, "borrower") == "Preempted"


def test_while_cede_leads_kueue_itself_preempts_nothing(admin: Admin) -> None:
    """A job that is not elastic has no runtime to ask: Cede stops it and records it."""
    reclaim(admin)
    assert preemption(admin) == OFF
    workload = admin.workloads_by_job(BORROWER)["borrower"]
    assert not condition_of(workload, "Preempted"), "Kueue's condition for its own preemption"
    cessions = admin.cluster.kubectl_json("get", "cessions")["items"]
    targets = [target for cession in cessions for target in cession["spec"]["targets"]]
    assert ("borrower", "Stop") in {(target["job"], target["how"]) for target in targets}


def test_an_elastic_job_that_is_stopped_waits_at_its_smallest_size(
    governed_cluster: Admin,
) -> None:
    """Whoever stops it, and with the same Workload: its place in the queue stays."""
    admin = governed_cluster
    admin.apply_policy()
    wait_until_cede_leads(admin)
    submit_elastic(admin, BORROWER, "2-4", 4)
    before = slice_of(admin, "elastic")
    try:
        set_active(admin, before, active=False)
        admin.cluster.until(lambda: pods_of(admin, before) == 2, "fewer pods", TIMEOUT_S)
        set_active(admin, before, active=True)
        admin.wait_for_admission(BORROWER, "elastic")
        assert slice_of(admin, "elastic") == before
    finally:
        admin.delete_jobs(BORROWER)


def slice_of(admin: Admin, job: str) -> str:
    """The job's only Workload that Kueue has not finished."""
    items = admin.cluster.kubectl_json("get", "workloads", "-n", BORROWER)["items"]
    (name,) = (
        item["metadata"]["name"]
        for item in items
        if item["metadata"]["ownerReferences"][0]["name"] == job
        and not condition_of(item, "Finished")
    )
    return str(name)


def set_active(admin: Admin, workload: str, *, active: bool) -> None:
    patch = json.dumps({"spec": {"active": active}})
    args = ("patch", "workload", workload, "-n", BORROWER, "--type=merge", "-p", patch)
    admin.cluster.kubectl(*args)


def pods_of(admin: Admin, workload: str) -> int:
    """For how many pods it asks."""
    body = admin.cluster.kubectl_json("get", "workload", workload, "-n", BORROWER)
    (pod_set,) = body["spec"]["podSets"]
    return int(pod_set["count"])


def test_in_mode_observe_kueue_preempts_by_its_own_rules(admin: Admin) -> None:
    admin.apply_policy(mode="Observe")
    assert_kueue_preempts(admin)


def test_without_a_leader_kueue_preempts_after_the_watchdogs_time(admin: Admin) -> None:
    with admin.cluster.switched_off(names.SCHEDULER):
        assert_kueue_preempts(admin)
    wait_until_cede_leads(admin)


def test_after_cede_release_kueue_preempts_by_its_own_rules(admin: Admin) -> None:
    admin.release()
    assert_kueue_preempts(admin)
