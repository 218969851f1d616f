"""Edits of Cede's objects by others are undone and reported, with their author."""

from collections.abc import AsyncIterator

import pytest

from cede.api import names
from cede.api.objects import (
    CLUSTER_QUEUES,
    EVENTS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
    Json,
)
from cede.api.reasons import EventReason
from tests.harness.quota_controller import (
    World,
    existing,
    filled,
    put_allocation,
    put_node,
    started,
)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A cluster in which everything is written."""
    async with filled() as world:
        await world.settle()
        yield world


def reported_edits(world: World) -> dict[str, str]:
    """What the events report about reverted edits, by the name of their object."""
    events = [e for e in world.server.objects(EVENTS) if e["reason"] == EventReason.EDIT_REVERTED]
    assert {event["type"] for event in events} <= {"Warning"}
    return {event["regarding"]["name"]: event["note"] for event in events}


def managed_field(manager: str, *path: str) -> Json:
    """An entry of managedFields for one field."""
    fields: Json = {}
    for step in reversed(path):
        fields = {f"f:{step}": fields}
    return {
        "manager": manager,
        "operation": "Update",
        "time": "2027-01-01T00:00:00Z",
        "fieldsV1": fields,
    }


async def test_edits_are_undone_and_the_schedulers_field_stays(world: World) -> None:
    queue = existing(world.server, CLUSTER_QUEUES, ("", "vision"))
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "400"
    queue["spec"]["queueingStrategy"] = "StrictFIFO"
    world.server.put(CLUSTER_QUEUES, queue)
    world.server.remove(SERVICES, ("vision", "cede-peers"))
    world.now += 60
    await world.settle()
    assert world.nominal_quota() == "4"
    assert world.queue_spec()["queueingStrategy"] == "StrictFIFO"
    assert world.server.get(SERVICES, ("vision", "cede-peers"))


async def test_repeated_edits_are_reported_once_with_their_author(world: World) -> None:
    for value in ("Hold", "HoldAndDrain"):
        queue = existing(world.server, CLUSTER_QUEUES, ("", "vision"))
        queue["spec"] |= {"stopPolicy": value, "queueingStrategy": "StrictFIFO"}
        queue["metadata"]["managedFields"] = [
            managed_field("kubectl-edit", "spec", "stopPolicy"),
            managed_field("kueue", "status"),
        ]
        world.server.put(CLUSTER_QUEUES, queue)
        world.now += 10
        await world.settle()
    spec = world.queue_spec()
    assert (spec["stopPolicy"], spec["queueingStrategy"]) == ("None", "StrictFIFO")
    sentence = (
        "ClusterQueue vision was changed by kubectl-edit: spec.stopPolicy was Hold, is None again"
    )
    assert reported_edits(world) == {"vision": sentence}


async def test_an_edit_of_a_shared_object_is_reported_at_the_policy(world: World) -> None:
    priority_class = existing(world.server, PRIORITY_CLASSES, ("", "training"))
    world.server.put(PRIORITY_CLASSES, priority_class | {"value": 99})
    world.now += 60
    await world.settle()
    sentence = "WorkloadPriorityClass training was changed: value was 99, is 50 again"
    assert reported_edits(world) == {"default": sentence}


async def test_a_raised_limit_of_objects_is_lowered_again(world: World) -> None:
    key = ("vision", "cede-objects")
    quota = existing(world.server, RESOURCE_QUOTAS, key)
    quota["spec"]["hard"]["count/pods"] = "50k"
    world.server.put(RESOURCE_QUOTAS, quota)
    world.now += 60
    await world.settle()
    limits = existing(world.server, RESOURCE_QUOTAS, key)["spec"]["hard"]
    assert limits["count/pods"] == "10000"
    assert "spec.hard.count/pods was 50k, is 10000 again" in reported_edits(world)["vision"]


async def test_a_deleted_object_is_created_again_and_reported(world: World) -> None:
    world.server.remove(SERVICES, ("vision", "cede-peers"))
    world.now += 60
    await world.settle()
    sentence = "Service cede-peers in namespace vision was deleted, and is created again"
    assert reported_edits(world) == {"vision": sentence}


async def test_the_report_about_a_secret_has_no_values(world: World) -> None:
    before = existing(world.server, SECRETS, ("vision", "cede-control"))
    world.server.put(SECRETS, before | {"data": {"key": "c3RvbGVu"}})
    world.now += 60
    await world.settle()
    after = existing(world.server, SECRETS, ("vision", "cede-control"))
    assert after | {"metadata": {}} == before | {"metadata": {}}
    sentence = "Secret cede-control in namespace vision was changed: data.key was changed"
    assert reported_edits(world) == {"vision": sentence}


async def test_changes_by_the_admin_or_the_cluster_are_no_edits(world: World) -> None:
    quotas = [{"instanceType": "local", "accelerators": 2}]
    put_allocation(world.server, "vision", quotas=quotas)
    await world.settle()
    put_node(world.server, "n2", ready="False")
    await world.settle()
    put_allocation(world.server, "research", team="lab")
    await world.settle()
    # the scheduler no longer renews its lease
    world.now += 500
    await world.settle()
    assert reported_edits(world) == {}


async def test_another_leader_recognizes_an_edit_by_its_author(world: World) -> None:
    queue = existing(world.server, CLUSTER_QUEUES, ("", "vision"))
    queue["spec"]["stopPolicy"] = "Hold"
    queue["metadata"]["managedFields"] = [
        managed_field("argocd", "spec", "stopPolicy"),
        managed_field(names.QUOTA_CONTROLLER, "spec", "fairSharing"),
    ]
    world.server.put(CLUSTER_QUEUES, queue)
    put_allocation(world.server, "vision", fairShareWeight=7)
    async with started(world.server) as second:
        second.renew_lease()
        await second.settle()
    sentence = "ClusterQueue vision was changed by argocd: spec.stopPolicy was Hold, is None again"
    assert reported_edits(world) == {"vision": sentence}
