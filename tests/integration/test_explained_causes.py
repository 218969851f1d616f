"""Causes are injected into a real cluster, and `cede explain` names the true one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cede.api import names
from cede.api.wait_reasons import WaitReason
from tests.integration.admin import Admin, governed, kubectl_list
from tests.integration.claims import elastic_job, submit_elastic
from tests.integration.explained import (
    JOBS,
    NAMESPACE,
    explain,
    job,
    kubeconfig_of,
    plain_jobs,
    run_explain,
    wait_for_event,
    wait_for_reason,
)
from tests.marks import LONG

pytestmark = pytest.mark.cluster
OWNER, BORROWER, KEEPER = "expl-owner", "expl-borrower", "expl-keeper"
NODE = "gov-1"


# --- outside of any team --------------------------------------------------------------------------
@pytest.fixture(scope="module")
def plain(cluster: Any) -> Iterator[Any]:
    with plain_jobs(cluster):
        yield cluster


@pytest.mark.parametrize("reason", JOBS)
def test_a_job_has_the_reason_that_was_injected(plain: Any, reason: WaitReason) -> None:
    facts = wait_for_reason(plain, NAMESPACE, JOBS[reason]["metadata"]["name"], reason)
    assert facts["why"].endswith(".")


@pytest.mark.parametrize(
    ("name", "reason", "head"),
    [
        pytest.param("behind", WaitReason.BEHIND_HEAD, "behind-head", id="that may fit later"),
        pytest.param("hopeless", WaitReason.HOPELESS_HEAD, "hopeless-head", id="that never fits"),
    ],
)
def test_a_job_behind_a_head_names_it(plain: Any, name: str, reason: WaitReason, head: str) -> None:
    assert f"{NAMESPACE}/{head}" in wait_for_reason(plain, NAMESPACE, name, reason)["why"]


def test_a_name_that_nothing_has(plain: Any) -> None:
    assert explain(plain, NAMESPACE, "nobody")["reason"] == WaitReason.NO_SUCH_JOB


def test_who_made_a_workload_inactive_is_named(plain: Any) -> None:
    plain.kubectl("create", "-f", "-", stdin=kubectl_list(job("inactive", "held")))
    wait_for_reason(plain, NAMESPACE, "inactive", WaitReason.QUEUE_ON_HOLD)
    items = plain.kubectl_json("get", "workloads", "-n", NAMESPACE)["items"]
    [workload] = [
        item["metadata"]["name"]
        for item in items
        if item["metadata"]["ownerReferences"][0]["name"] == "inactive"
    ]
    inactive = ("--type=merge", "-p", json.dumps({"spec": {"active": False}}))
    plain.kubectl("patch", "workload", workload, "-n", NAMESPACE, *inactive)
    facts = wait_for_reason(plain, NAMESPACE, "inactive", WaitReason.DEACTIVATED_BY_HAND)
    assert "kubectl-patch wrote that" in facts["why"]


LIMIT = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "small", "namespace": NAMESPACE},
    "spec": {"limits": [{"type": "Container", "max": {"cpu": "15m"}, "default": {"cpu": "15m"}}]},
}
PRIVILEGED = {"securityContext": {"privileged": True}}
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "none", "namespace": NAMESPACE},
    "spec": {"hard": {"count/pods": "0"}},
}


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        pytest.param(LIMIT, WaitReason.INVALID_REQUESTS, id="a LimitRange"),
        pytest.param(QUOTA, WaitReason.API_QUOTA_EXCEEDED, id="a ResourceQuota"),
    ],
)
def test_a_limit_of_the_namespace(plain: Any, limit: Any, reason: WaitReason) -> None:
    name = f"limited-{limit['kind'].lower()}"
    resources = {"requests": {"cpu": "30m"}}
    plain.kubectl("create", "-f", "-", stdin=kubectl_list(limit))
    try:
        limited = job(name, "open", container={"resources": resources})
        plain.kubectl("create", "-f", "-", stdin=kubectl_list(limited))
        wait_for_reason(plain, NAMESPACE, name, reason)
    finally:
        plain.kubectl("delete", "-f", "-", stdin=kubectl_list(limit))


def test_pods_that_the_namespace_refuses(plain: Any) -> None:
    label = f"{names.POD_SECURITY_ENFORCE}=baseline"
    plain.kubectl("label", "namespace", NAMESPACE, label)
    try:
        refused = job("privileged", "open", container=PRIVILEGED)
        plain.kubectl("create", "-f", "-", stdin=kubectl_list(refused))
        wait_for_reason(plain, NAMESPACE, "privileged", WaitReason.PODS_REFUSED)
    finally:
        plain.kubectl("label", "namespace", NAMESPACE, f"{names.POD_SECURITY_ENFORCE}-")


# --- teams ----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def governed_cluster(cluster: Any) -> Iterator[Admin]:
    """One node of eight accelerators, of which each team owns four."""
    with governed(cluster, nodes=1) as admin:
        admin.apply_team(OWNER, 4)
        admin.apply_team(BORROWER, 4)
        yield admin
        admin.delete_teams(OWNER, BORROWER)


@pytest.fixture
def admin(governed_cluster: Admin) -> Iterator[Admin]:
    yield governed_cluster
    governed_cluster.delete_jobs(OWNER, BORROWER)
    governed_cluster.apply_policy()
    governed_cluster.apply_team(OWNER, 4)
    governed_cluster.apply_team(BORROWER, 4)


def run(admin: Admin, team: str, name: str, accelerators: int, class_: str = "training") -> None:
    admin.submit(admin.job(team, name, accelerators, class_))
    admin.wait_for_admission(team, name)


def expect(admin: Admin, team: str, name: str, reason: WaitReason) -> Any:
    return wait_for_reason(admin.cluster, team, name, reason)


def test_an_allocation_that_is_not_active(admin: Admin) -> None:
    admin.apply_team(OWNER, 4, active=False)
    admin.submit(admin.job(OWNER, "claim", 1))
    expect(admin, OWNER, "claim", WaitReason.ALLOCATION_NOT_ACTIVE)


def test_own_jobs_the_borrowing_limit_and_promises(admin: Admin) -> None:
    admin.apply_team(OWNER, 4, sharing={"strategy": "Lend"})
    run(admin, OWNER, "uses-own", 4)
    admin.submit(admin.job(OWNER, "more", 1))
    facts = expect(admin, OWNER, "more", WaitReason.OWN_TEAM_USES_QUOTA)
    [shortage] = [cause["shortage"] for cause in facts["causes"][:1]]
    assert (shortage["asked"], shortage["missing"], shortage["owned"]) == ("1", "1", "4")
    assert [holder["job"] for holder in shortage["holders"]] == [f"{OWNER}/uses-own"]
    # `kubectl describe job` shows it, in the same words
    note = wait_for_event(admin.cluster, OWNER, "more", WaitReason.OWN_TEAM_USES_QUOTA)
    assert note.startswith(facts["why"])
    admin.apply_team(OWNER, 4, sharing={"strategy": "LendAndBorrow", "borrowLimitPercent": 50})
    admin.submit(admin.job(OWNER, "limited", 3))
    expect(admin, OWNER, "limited", WaitReason.BORROWING_LIMIT)
    admin.apply_team(BORROWER, 12, sharing={"strategy": "Lend"})
    admin.submit(admin.job(BORROWER, "promised", 10, pods=10))
    expect(admin, BORROWER, "promised", WaitReason.OVERSUBSCRIBED_QUOTA)


def test_nothing_is_idle_because_its_owner_uses_it(admin: Admin) -> None:
    run(admin, BORROWER, "uses-own", 4)
    admin.submit(admin.job(OWNER, "claim", 6, pods=6))
    expect(admin, OWNER, "claim", WaitReason.NO_IDLE_CAPACITY)


def test_what_is_idle_is_not_lent(admin: Admin) -> None:
    admin.apply_team(OWNER, 2)
    admin.apply_team(BORROWER, 2)
    admin.apply_team(KEEPER, 4, sharing={"strategy": "DontLend"})
    try:
        run(admin, BORROWER, "uses-own", 2)
        admin.submit(admin.job(OWNER, "claim", 4, pods=4))
        facts = expect(admin, OWNER, "claim", WaitReason.LENDING_LIMITS)
        assert f"team {KEEPER} has 4 nvidia.com/gpu" in facts["why"]
    finally:
        admin.delete_teams(KEEPER)


def test_a_node_that_is_cordoned_reduces_the_quota(admin: Admin) -> None:
    admin.cluster.kubectl("cordon", NODE)
    try:
        admin.wait_for_message(OWNER, "is missing, because")
        admin.submit(admin.job(OWNER, "claim", 4))
        expect(admin, OWNER, "claim", WaitReason.NODES_DOWN)
    finally:
        admin.cluster.kubectl("uncordon", NODE)


def test_a_member_learns_what_members_may_read(admin: Admin, tmp_path: Path) -> None:
    """Not the jobs of other teams, nor the scheduler's lease."""
    admin.apply_policy(preemption={"minRuntimeSeconds": 600})
    members = [{"kind": "ServiceAccount", "name": "member"}]
    admin.apply_team(OWNER, 4, members=members)
    member = kubeconfig_of(admin.cluster, OWNER, "member", tmp_path / "config")
    run(admin, BORROWER, "borrows", 8)
    admin.submit(admin.job(OWNER, "claim", 4))
    expect(admin, OWNER, "claim", WaitReason.MIN_RUNTIME)
    facts, errors = run_explain(member, OWNER, "claim")
    assert facts["reason"] == WaitReason.LENT_QUOTA_IN_USE
    holders = [
        (holder["team"], holder["job"]) for holder in facts["causes"][0]["shortage"]["holders"]
    ]
    assert holders == [(BORROWER, "")]
    assert errors == "cede: you may not list workloads, so this answer knows less than it could\n"
    stranger = kubeconfig_of(admin.cluster, BORROWER, "stranger", tmp_path / "other")
    with pytest.raises(AssertionError, match="workloads"):
        run_explain(stranger, OWNER, "claim")


def test_who_borrows_is_spared_for_its_minimum_runtime(admin: Admin) -> None:
    admin.apply_policy(preemption={"minRuntimeSeconds": 600})
    run(admin, BORROWER, "borrows", 8)
    admin.submit(admin.job(OWNER, "claim", 4))
    facts = expect(admin, OWNER, "claim", WaitReason.MIN_RUNTIME)
    assert facts["causes"][0]["estimate"]["earliest"]
    lent = facts["causes"][1]
    assert lent["reason"] == WaitReason.LENT_QUOTA_IN_USE
    assert f"{BORROWER}/borrows" in [holder["job"] for holder in lent["shortage"]["holders"]]


@LONG
def test_a_take_back_is_explained_to_both_sides(admin: Admin) -> None:
    """Nobody answers for the elastic job, so its grace has to pass."""
    admin.apply_policy(preemption={"minRuntimeSeconds": 0, "growCooldownSeconds": 600})
    submit_elastic(admin, BORROWER, "4-8", 8, grace="40s")
    admin.submit(admin.job(OWNER, "claim", 4))
    expect(admin, OWNER, "claim", WaitReason.CESSION_PENDING)
    expect(admin, BORROWER, "elastic", WaitReason.SHRINKS_FOR_CESSION)
    facts = expect(admin, BORROWER, "elastic", WaitReason.SHRUNK_FOR_CESSION)
    [taken] = facts["taken"]
    assert (taken["preemptor"], taken["rule"]) == (f"{OWNER}/claim", "ReclaimOwnQuota")
    assert (taken["from_size"], taken["to_size"]) == (8, 4)
    assert WaitReason.GROWTH_COOLDOWN in [cause["reason"] for cause in facts["causes"]]


def test_a_job_that_stays_stopped_says_for_whom(admin: Admin) -> None:
    rigid = admin.job(BORROWER, "rigid", 8)
    rigid["metadata"]["annotations"] = {names.AFTER_PREEMPTION: names.STOP, names.GRACE: "1s"}
    admin.submit(rigid)
    admin.wait_for_admission(BORROWER, "rigid")
    admin.submit(admin.job(OWNER, "claim", 4))
    facts = expect(admin, BORROWER, "rigid", WaitReason.KEPT_STOPPED)
    assert f"{OWNER}/claim" in facts["why"]


def test_mode_observe_and_no_scheduler(admin: Admin) -> None:
    """Nobody resizes an elastic job that could grow."""
    admin.apply_policy(mode="Observe")
    admin.submit(elastic_job(BORROWER, "2-8", 4, "2s"))
    expect(admin, BORROWER, "elastic", WaitReason.POLICY_OBSERVES)
    with admin.cluster.switched_off(names.SCHEDULER):
        admin.apply_policy(preemption={"watchdogSeconds": 600})
        expect(admin, BORROWER, "elastic", WaitReason.NO_SCHEDULER)


def test_a_job_that_the_webhook_missed(admin: Admin) -> None:
    """Kueue queues it by its own default; nobody gives it a priority class."""
    run(admin, OWNER, "uses-own", 8)
    with admin.cluster.switched_off(names.WEBHOOK):
        admin.submit(admin.job(BORROWER, "plain", 8, pods=8))
        admin.wait_for_workload(BORROWER, "plain")

    def is_told() -> bool:
        causes = explain(admin.cluster, BORROWER, "plain")["causes"]
        return WaitReason.WEBHOOK_MISSED in [cause["reason"] for cause in causes]

    admin.cluster.until(is_told, "the priority class that it lacks", 60)


# --- the last one, because nothing is admitted meanwhile ------------------------------------------
@LONG
def test_kueue_is_down(plain: Any) -> None:
    deployment = ("deployment", "kueue-controller-manager", "-n", "kueue-system")
    plain.kubectl("scale", *deployment, "--replicas=0")
    try:
        wait_for_reason(plain, NAMESPACE, "held", WaitReason.KUEUE_DOWN)
    finally:
        plain.kubectl("scale", *deployment, "--replicas=1")
        plain.kubectl("wait", *deployment, "--for=condition=Available", "--timeout=120s")
