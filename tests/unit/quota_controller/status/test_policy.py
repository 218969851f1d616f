"""The status of the ClusterPolicy reports what is wrong and what to do."""

from dataclasses import replace

import pytest
import yaml

from cede.api.crd_schema import MAX_STATUS_TEXT
from cede.api.objects import NAMESPACES, Json, condition
from cede.api.policy import PolicyStatus
from cede.api.reasons import PolicyReason, Reason, WriteReason
from cede.api.support import Kubernetes
from cede.api.unreadable import UnreadableObjects
from cede.kueue_settings.config import CONFIG_KEY, KueueInstallation
from quota_controller.desired.conflicts import Problem, Problems
from quota_controller.desired.desired_object import SHARED
from quota_controller.desired.plan import Snapshot, make_plan
from quota_controller.status.policy import (
    KUBERNETES_SUPPORTED,
    KUEUE_CONFIGURED,
    SCHEDULER_LEADS,
    policy_status,
    unsynced_policy_status,
)
from tests.builders.quotas import allocation, as_live, node, policy, snapshot

NOW = 1_800_000_000.0


def status_of(cluster: Snapshot, problems: Problems | None = None) -> PolicyStatus:
    status = policy_status(make_plan(cluster), cluster, problems or {}, NOW)
    assert status is not None
    return status


def condition_of(status: PolicyStatus, type_: str) -> Json:
    reported = condition(status.conditions, type_)
    assert reported is not None
    return reported


OVERLAPPING_TYPES = [
    {"name": "a", "nodeLabels": {"x": "1"}},
    {"name": "b", "nodeLabels": {"x": "1", "y": "2"}},
]


@pytest.mark.parametrize(
    ("spec", "problems", "reason"),
    [
        pytest.param({}, {}, PolicyReason.READY, id="in place"),
        pytest.param({"instanceTypes": []}, {}, PolicyReason.NO_INSTANCE_TYPES, id="no types"),
        pytest.param(
            {},
            {SHARED: Problem(WriteReason.OBJECT_EXISTS, "ResourceFlavor p5 exists")},
            WriteReason.OBJECT_EXISTS,
            id="an object is not written",
        ),
        pytest.param(
            {"instanceTypes": OVERLAPPING_TYPES},
            {},
            PolicyReason.TYPES_OVERLAP,
            id="one type selects the nodes of another",
        ),
    ],
)
def test_ready_has_the_reason(spec: Json, problems: Problems, reason: Reason) -> None:
    status = status_of(snapshot([allocation()], cluster_policy=policy(**spec)), problems)
    assert condition_of(status, "Ready")["reason"] == reason
    assert condition_of(status, SCHEDULER_LEADS)["reason"] == "Leads"


def test_a_kept_topology_is_reported() -> None:
    before = as_live(make_plan(snapshot(cluster_policy=policy(topology=["rack"]))))
    status = status_of(snapshot(cluster_policy=policy(topology=["block"]), live=before))
    assert condition_of(status, "Ready")["reason"] == PolicyReason.TOPOLOGY_NOT_APPLIED


@pytest.mark.parametrize(
    ("mode", "leader", "expected"),
    [
        pytest.param("Enforce", "s-0", ("True", "Leads", "Cede"), id="leads"),
        pytest.param("Observe", "s-0", ("True", "Observing", "Kueue"), id="observes"),
        pytest.param("Enforce", "", ("False", "NoLeader", "Kueue"), id="no leader"),
    ],
)
def test_who_preempts_is_reported(mode: str, leader: str, expected: tuple[str, str, str]) -> None:
    status = status_of(snapshot(cluster_policy=policy(mode=mode), leader=leader))
    leads = condition_of(status, SCHEDULER_LEADS)
    assert (leads["status"], leads["reason"], status.preemption) == expected


def test_nodes_with_another_partition_layout_are_listed() -> None:
    partition = "nvidia.com/mig-1g.10gb"
    types = [{"name": "p5", "accelerators": 8, "partitions": {partition: 56}}]
    nodes = [node("a"), node("b"), node("c", gpus=0, partitions={partition: 56})]
    cluster = snapshot([allocation()], cluster_policy=policy(instanceTypes=types), nodes=nodes)
    [type_status] = status_of(cluster).instanceTypes
    expected = "1 healthy node (c) with other partitions than a whole node"
    assert expected in type_status.message


def test_degraded_nodes_are_listed() -> None:
    nodes = [node(name, gpus=8 if name == "a" else 7) for name in "abcde"]
    [type_status] = status_of(snapshot(nodes=nodes)).instanceTypes
    assert "4 healthy nodes (b, c, d, ...) with fewer accelerators" in type_status.message


def test_long_names_of_nodes_leave_room_for_what_to_do() -> None:
    partition = "nvidia.com/mig-1g.10gb"
    types = [{"name": "p5", "accelerators": 8, "partitions": {partition: 56}}]
    fewer = [node(f"{letter * 250}-a", gpus=3) for letter in "abcd"]
    other = [node(f"{letter * 250}-b", gpus=0, partitions={partition: 56}) for letter in "abcd"]
    nodes = [node("a"), node("b"), *[node(f"c{i}") for i in range(4)], *fewer, *other]
    team = allocation(quotas=[{"instanceType": "p5", "count": 50}])
    cluster = snapshot([team], cluster_policy=policy(instanceTypes=types), nodes=nodes)
    [type_status] = status_of(cluster).instanceTypes
    assert len(type_status.message) <= MAX_STATUS_TEXT
    assert f"4 healthy nodes ({'a' * 63}…, " in type_status.message
    assert type_status.message.endswith("give such nodes a type of their own by nodeLabels")


@pytest.mark.parametrize(
    ("ready", "count", "expected"),
    [
        pytest.param("True", 2, "", id="in place"),
        pytest.param("False", 2, "hold less than is granted: every quota is reduced", id="failed"),
        pytest.param("True", 50, "not granted in full, or add nodes", id="too large"),
        pytest.param("False", 50, "wait for nodes to return (1 of 2 down)", id="both"),
    ],
)
def test_nodes_that_failed_are_told_apart_from_too_large_allocations(
    ready: str, count: int, expected: str
) -> None:
    team = allocation(quotas=[{"instanceType": "p5", "count": count}])
    before = make_plan(snapshot([team], nodes=[node("a"), node("b")]))
    cluster = snapshot([team], nodes=[node("a"), node("b", ready=ready)])
    cluster = replace(cluster, grant_records=before.grant_records)
    [type_status] = status_of(cluster).instanceTypes
    assert expected in type_status.message
    assert bool(type_status.message) == bool(expected)


def test_unreadable_settings_of_kueue_are_reported() -> None:
    kueue = KueueInstallation(read_error="403 Forbidden: configmaps")
    configured = condition_of(status_of(replace(snapshot(), kueue=kueue)), KUEUE_CONFIGURED)
    assert (configured["status"], configured["message"]) == (
        "Unknown",
        "Kueue's settings cannot be read: 403 Forbidden: configmaps",
    )


def test_the_labels_of_the_namespace_of_guards_are_those_in_the_cluster() -> None:
    config = {"managedJobsNamespaceSelector": {"matchLabels": {"queued": "yes"}}}
    config_map = {"data": {CONFIG_KEY: yaml.safe_dump(config)}}
    current = replace(snapshot(), kueue=KueueInstallation(config_map, {}))
    complaint = "does not select namespace cede-guard"
    assert complaint in condition_of(status_of(current), KUEUE_CONFIGURED)["message"]
    namespace = {"metadata": {"name": "cede-guard", "labels": {"queued": "yes"}}}
    live = {**current.live, (NAMESPACES, ("", "cede-guard")): namespace}
    labelled = replace(current, live=live)
    assert complaint not in condition_of(status_of(labelled), KUEUE_CONFIGURED)["message"]


def test_an_object_that_cannot_be_read_is_named() -> None:
    unreadable = ("Node n1: Expected `object`, got `array`", "Node n2: the same")
    ready = condition_of(status_of(replace(snapshot(), unreadable=unreadable)), "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ObjectsUnreadable")
    assert "2 objects cannot be read by cede-quota-controller" in ready["message"]
    assert "Node n1: Expected" in ready["message"]


@pytest.mark.parametrize(
    ("own", "leader", "returning", "expected"),
    [
        pytest.param((), "s-0", "", ("ObjectsUnreadable", False, True), id="only the scheduler's"),
        pytest.param(("Node n1: x",), "s-0", "", ("ObjectsUnreadable", True, True), id="both"),
        pytest.param((), "", "s-1", ("ObjectsUnreadable", False, True), id="it is back"),
        pytest.param((), "", "", ("Ready", False, False), id="no scheduler leads"),
    ],
)
def test_an_object_that_the_scheduler_cannot_read_is_named_too(
    own: tuple[str, ...], leader: str, returning: str, expected: tuple[str, bool, bool]
) -> None:
    objects = UnreadableObjects(3, "Pod vision/odd: Expected `object`, got `str`")
    cluster = replace(snapshot(), leader=leader, returning=returning)
    cluster = replace(cluster, unreadable=own, unreadable_to_scheduler=objects)
    ready = condition_of(status_of(cluster), "Ready")
    theirs = "3 objects cannot be read by cede-scheduler" in ready["message"]
    assert ("Pod vision/odd: Expected" in ready["message"]) == theirs
    ours = "1 objects cannot be read by cede-quota-controller" in ready["message"]
    assert (ready["reason"], ours, theirs) == expected


def test_while_kueue_is_not_installed_the_last_figures_stay() -> None:
    before = policy().model_copy(update={"status": PolicyStatus(leader="s-0")})
    error = "404 NotFound: the server could not find the resource"
    status = unsynced_policy_status(before, {"ClusterQueue": error}, NOW)
    ready = condition_of(status, "Ready")
    assert (ready["status"], ready["reason"], status.leader) == ("False", "CannotRead", "s-0")
    assert "ClusterQueue cannot be read (404" in ready["message"]
    assert "install Kueue 0.19.2 or newer" in ready["message"]


def test_the_status_names_a_kubernetes_that_cannot_work() -> None:
    frozen = Kubernetes("v1.36.3", has_gangs=True)
    verdict = condition_of(status_of(replace(snapshot(), kubernetes=frozen)), KUBERNETES_SUPPORTED)
    assert (verdict["status"], verdict["reason"]) == ("False", "JobsFrozen")
