"""Edits are reverted, conflicts and settings are reported, a quiet cluster is not written to."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.integration.admin import Admin, condition_of, governed
from tests.marks import LONG

pytestmark = pytest.mark.cluster

TEAM = "gov-standing"
# longer than the idle interval of the controllers; `make test-long` takes 300
QUIET_S = float(os.environ.get("CEDE_QUIET_SECONDS", "75"))
QUIET_ATTEMPTS = 3


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    with governed(cluster, nodes=1) as admin:
        admin.apply_team(TEAM, 4, members=[{"kind": "User", "name": "ann"}])
        yield admin
        admin.delete_teams(TEAM)


# --- edits ----------------------------------------------------------------------------------------
MALLORY = {"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}
NO_LABELS = {names.MANAGED_BY: None, names.ALLOCATION: None}
EDITS: list[tuple[str, str, str, Json, str]] = [
    (
        "clusterqueue",
        "",
        TEAM,
        {"spec": {"stopPolicy": "Hold"}},
        "spec.stopPolicy was Hold, is None again",
    ),
    ("clusterqueue", "", TEAM, {"spec": {"resourceGroups": []}}, "spec.resourceGroups was"),
    (
        "rolebinding",
        TEAM,
        "cede-members",
        {"subjects": [MALLORY]},
        "subjects[0].name was mallory, is ann again",
    ),
    (
        "namespace",
        "",
        TEAM,
        {"metadata": {"labels": {names.TEAM: "x"}}},
        f"metadata.labels.cede.dev/team was x, is {TEAM} again",
    ),
    (
        "service",
        TEAM,
        "cede-peers",
        {"spec": {"selector": {names.ELASTIC_POD: "no"}}},
        "cede.dev/elastic was no, is true again",
    ),
    (
        "resourcequota",
        TEAM,
        "cede-objects",
        {"spec": {"hard": {"count/pods": "50k"}}},
        "spec.hard.count/pods was 50k, is 10000 again",
    ),
    ("clusterqueue", "", TEAM, {"metadata": {"labels": NO_LABELS}}, "was absent, is cede again"),
]


def reported_edits(admin: Admin) -> list[str]:
    """What events report about reverted edits of the team's objects."""
    selector = f"involvedObject.name={TEAM},reason=EditReverted"
    events = admin.cluster.kubectl_json(
        "get", "events", "-n", "default", "--field-selector", selector
    )
    return [event["message"] for event in events["items"]]


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "edit", "description"),
    EDITS,
    ids=[f"{case[0]} {case[4]}" for case in EDITS],
)
def test_an_edit_is_reverted_within_seconds_and_reported(
    admin: Admin, kind: str, namespace: str, name: str, edit: Json, description: str
) -> None:
    in_namespace = ["-n", namespace] if namespace else []

    def content() -> Json:
        obj: Json = admin.cluster.kubectl_json("get", kind, name, *in_namespace)
        fields = {k: v for k, v in obj.items() if k not in ("metadata", "status")}
        return {**fields, "labels": obj["metadata"].get("labels")}

    def matching_reports() -> set[str]:
        return {sentence for sentence in reported_edits(admin) if description in sentence}

    before = content()
    events_before = len(reported_edits(admin))
    options = ("--type=merge", "--field-manager=somebody", "-p", json.dumps(edit))
    admin.cluster.kubectl("patch", kind, name, *in_namespace, *options)
    admin.cluster.until(lambda: content() == before, "the edit to be reverted", 15)
    # further edits of the same object are reported once a minute
    if events_before == 0 or kind != "clusterqueue":
        admin.cluster.until(matching_reports, f"an event with {description!r}", 15)
        [sentence] = matching_reports()
        assert "was changed by somebody: " in sentence


def test_the_quota_controller_does_not_own_what_the_scheduler_writes(admin: Admin) -> None:
    queue = admin.cluster.kubectl_json("get", "clusterqueue", TEAM, "--show-managed-fields")
    own_entries = [
        entry
        for entry in queue["metadata"]["managedFields"]
        if entry["manager"] == "cede-quota-controller" and entry["operation"] == "Apply"
    ]
    assert own_entries
    for entry in own_entries:
        assert "f:queueingStrategy" not in entry["fieldsV1"].get("f:spec", {})


# --- conflicts and settings -----------------------------------------------------------------------
def test_a_second_allocation_of_a_team_is_reported_and_recovers(admin: Admin) -> None:
    second = "gov-second"
    admin.apply_team(second, 1, team=TEAM, namespace={"name": second})
    try:
        ready = condition_of(admin.allocation(second), "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "TeamTaken")
        assert f"team {TEAM} already has allocation {TEAM}" in ready["message"]
        assert condition_of(admin.allocation(TEAM), "Ready")["status"] == "True"
        admin.apply_team(second, 1, team="gov-other", namespace={"name": second})
        admin.wait_for_message(second, "team gov-other owns")
    finally:
        admin.delete_teams(second)


def test_the_policy_reports_whether_kueues_settings_fit(admin: Admin) -> None:
    def configured() -> Json:
        return condition_of(admin.policy(), "KueueConfigured")

    admin.cluster.until(
        lambda: configured().get("status") == "True", "Kueue's settings to fit the policy", 120
    )
    assert configured()["message"].startswith(
        "Kueue 0.19.2 is configured as the policy needs; it queues batch/job"
    )
    admin.apply_policy(idleCompute="FirstCome")
    admin.cluster.until(
        lambda: configured()["reason"] == "FairSharingOn", "the policy to report the setting", 120
    )
    admin.apply_policy()
    admin.cluster.until(
        lambda: configured()["status"] == "True", "Kueue's settings to fit again", 120
    )


# --- a quiet cluster ------------------------------------------------------------------------------
def readiness(admin: Admin) -> dict[str, str]:
    """Node → since when it is ready, or is not."""
    return {
        node["metadata"]["name"]: condition_of(node, "Ready").get("lastTransitionTime", "")
        for node in admin.cluster.kubectl_json("get", "nodes")["items"]
    }


@LONG
def test_in_a_quiet_cluster_only_leases_are_written(admin: Admin) -> None:
    """By the API server's audit log of writes by our service accounts.

    A cluster in which a node comes or goes is not quiet: a busy machine may be late to say that a
    node is alive, and then there is less to share out.
    """
    log = admin.cluster.kubeconfig.parent / "log" / "audit.log"
    if not log.exists():
        pytest.skip("this cluster keeps no audit log: `make down`, then `make up`")
    admin.wait_for_message(TEAM, f"team {TEAM} owns")
    for _ in range(QUIET_ATTEMPTS):
        # writes that earlier tests, or a node, have caused
        time.sleep(10)
        before = readiness(admin)
        start = log.stat().st_size
        time.sleep(QUIET_S)
        if readiness(admin) == before:
            break
    else:
        pytest.fail(f"nodes came and went in each of {QUIET_ATTEMPTS} attempts: {before}")
    with log.open() as lines:
        lines.seek(start)
        writes = [json.loads(line) for line in lines]
    count = Counter(
        (
            write["user"]["username"].rpartition(":")[2],
            write["verb"],
            write["objectRef"]["resource"],
        )
        for write in writes
    )
    writers = {user for user, _, _ in count}
    assert writers >= {"cede-quota-controller", "cede-scheduler"}, "the controllers run"
    assert {resource for _, _, resource in count} == {"leases"}, count
