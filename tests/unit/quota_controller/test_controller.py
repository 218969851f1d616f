"""The controller against an API server: what it writes when something changes, and what not."""

import asyncio

import pytest

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CLUSTER_QUEUES,
    CLUSTER_ROLE_BINDINGS,
    COHORTS,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    POLICIES,
    ROLE_BINDINGS,
    SERVICES,
    rfc3339,
)
from tests.harness.quota_controller import (
    WRITTEN_KINDS,
    World,
    condition_of,
    existing,
    put_allocation,
    put_node,
)


async def test_every_object_is_created_in_an_empty_cluster(world: World) -> None:
    await world.settle()
    created = set()
    for kind in WRITTEN_KINDS:
        for obj in world.server.objects(kind):
            namespace = obj["metadata"].get("namespace")
            prefix = f"{namespace}/" if namespace else ""
            created.add(f"{kind.kind} {prefix}{obj['metadata']['name']}")
    assert created == {
        "ResourceFlavor local",
        "Cohort cede",
        "WorkloadPriorityClass training",
        "ClusterRoleBinding cede-members",
        "ClusterQueue vision",
        "Namespace vision",
        "LocalQueue vision/default",
        "Service vision/cede-peers",
        "NetworkPolicy vision/cede-elastic",
        "ResourceQuota vision/cede-objects",
        "Secret vision/cede-control",
        "RoleBinding vision/cede-members",
        "ClusterQueue research",
        "Namespace research",
        "LocalQueue research/default",
        "Service research/cede-peers",
        "NetworkPolicy research/cede-elastic",
        "ResourceQuota research/cede-objects",
        "Secret research/cede-control",
        "Secret cede-system/cede-root",
    }


async def test_the_status_has_condition_and_columns(world: World) -> None:
    await world.settle()
    ready = world.ready()
    assert (ready["status"], ready["reason"], ready["observedGeneration"]) == ("True", "Ready", 1)
    assert set(ready) == {
        "type",
        "status",
        "reason",
        "message",
        "observedGeneration",
        "lastTransitionTime",
    }
    assert ready["message"] == (
        "team vision owns 4 nvidia.com/gpu, 2 cpu, 24 GiB memory; it lends idle quota and borrows"
    )
    status = world.status()
    columns = tuple(status[name] for name in ("owns", "used", "lent", "borrowed"))
    assert columns == ("4 gpu", "0 gpu", "0 gpu", "0 gpu")


# --- changes --------------------------------------------------------------------------------------
async def test_nothing_is_written_when_nothing_has_changed(world: World) -> None:
    await world.settle()
    world.now += 5
    world.renew_lease()
    put_node(world.server, "n1")
    assert await world.settle() == []


async def test_heartbeats_cause_no_write(world: World) -> None:
    await world.settle()
    before = len(world.server.writes())
    for minute in range(60):
        world.now += 60
        world.renew_lease()
        put_node(world.server, "n1", heartbeat=f"2027-01-01T00:{minute:02}:00Z")
        await world.sync_caches()
        await world.controller.reconcile()
    assert world.server.writes()[before:] == []


async def test_an_unreadable_node_delays_nothing_and_is_reported(world: World) -> None:
    """Also before the first pass, which needs all kinds to be synced."""
    world.server.put(NODES, {"metadata": {"name": "odd"}, "status": "no status"})
    await world.controller.nodes.synced.wait()
    async with asyncio.timeout(5):
        while not world.controller.nodes.unreadable:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await world.controller.reconcile()
    assert world.server.get(CLUSTER_QUEUES, ("", "vision"))
    ready = condition_of(world.policy_status(), "Ready")
    assert (ready["reason"], "odd" in ready["message"]) == ("ObjectsUnreadable", True)


async def test_what_the_scheduler_cannot_read_is_reported_at_once_and_until_it_can(
    world: World,
) -> None:
    await world.settle()
    for note, reason in (("2: Pod vision/odd: no spec", "ObjectsUnreadable"), ("", "Ready")):
        world.controller.wake.clear()
        world.put_lease("scheduler-0", rfc3339(world.now, micro=True), note)
        async with asyncio.timeout(5):
            await world.controller.wake.wait()
        await world.controller.reconcile()
        ready = condition_of(world.policy_status(), "Ready")
        assert (ready["reason"], "Pod vision/odd" in ready["message"]) == (reason, bool(note))


async def test_the_finalizer_is_added_before_any_object_is_created(world: World) -> None:
    written = await world.settle()
    first_queue = written.index(("PATCH", CLUSTER_QUEUES.path(("", "vision"))))
    assert written.index(("PATCH", ALLOCATIONS.path(("", "vision")))) < first_queue


async def test_a_change_writes_only_the_objects_that_it_concerns(world: World) -> None:
    await world.settle()
    quotas = [{"instanceType": "local", "accelerators": 2}]
    members = [{"kind": "Group", "name": "x"}]
    put_allocation(world.server, "vision", quotas=quotas, members=members)
    written = {path for _, path in await world.settle() if "events" not in path}
    assert world.nominal_quota() == "2"
    assert written == {
        CLUSTER_QUEUES.path(("", "vision")),
        COHORTS.path(("", "cede")),
        ROLE_BINDINGS.path(("vision", "cede-members")),
        CLUSTER_ROLE_BINDINGS.path(("", "cede-members")),
        ALLOCATIONS.path(("", "vision"), subresource="status"),
        POLICIES.path(("", "default"), subresource="status"),
    }


@pytest.mark.parametrize(("donor", "receiver"), [("vision", "research"), ("research", "vision")])
async def test_quota_is_reduced_before_it_is_given_to_another_team(
    world: World, donor: str, receiver: str
) -> None:
    """Otherwise Kueue could admit more than exists for a moment."""
    await world.settle()
    for name, accelerators in ((donor, 1), (receiver, 7)):
        quotas = [{"instanceType": "local", "accelerators": accelerators}]
        put_allocation(world.server, name, quotas=quotas)
    written = [path for _, path in await world.settle() if path.startswith(CLUSTER_QUEUES.path())]
    assert written == [CLUSTER_QUEUES.path(("", name)) for name in (donor, receiver)]


async def test_unallocated_capacity_is_reduced_before_a_team_gets_it(world: World) -> None:
    put_allocation(world.server, "research", quotas=[])
    await world.settle()
    put_allocation(world.server, "research")
    queues_and_cohorts = (CLUSTER_QUEUES.path(), COHORTS.path())
    written = [path for _, path in await world.settle() if path.startswith(queues_and_cohorts)]
    assert written == [COHORTS.path(("", "cede")), CLUSTER_QUEUES.path(("", "research"))]


async def test_usage_is_reported_by_borrower_and_lender(world: World) -> None:
    await world.settle()
    queue = existing(world.server, CLUSTER_QUEUES, ("", "research"))
    accelerators = {"name": names.GPU, "total": "7", "borrowed": "3"}
    reserved = [{"name": "local", "resources": [accelerators]}]
    status = {**queue["status"], "flavorsReservation": reserved}
    world.server.put(CLUSTER_QUEUES, {**queue, "status": status})
    await world.settle()
    research = world.status("research")
    assert (research["used"], research["borrowed"]) == ("7 gpu", "3 gpu")
    assert world.status("vision")["lent"] == "3 gpu"


async def test_a_lost_node_reduces_every_quota_until_it_is_back(world: World) -> None:
    await world.settle()
    put_node(world.server, "n2", ready="Unknown")
    await world.settle()
    assert (world.nominal_quota("vision"), world.nominal_quota("research")) == ("2", "2")
    assert world.ready()["reason"] == "InsufficientNodes"
    assert "2 nvidia.com/gpu" in world.ready()["message"]
    put_node(world.server, "n2")
    await world.settle()
    assert (world.nominal_quota("vision"), world.nominal_quota("research")) == ("4", "4")
    assert world.ready()["reason"] == "Ready"


# --- deletion -------------------------------------------------------------------------------------
async def test_deletion_drains_the_queue_and_keeps_the_namespace(world: World) -> None:
    await world.settle()
    world.run_kueue(vision=2)
    await world.controller.client.delete(ALLOCATIONS, ("", "vision"))
    await world.settle()
    assert world.queue_spec()["stopPolicy"] == "Hold"
    assert world.ready()["reason"] == "Draining"
    assert "2 workloads still use its quota" in world.ready()["message"]
    world.run_kueue(vision=0)
    await world.settle()
    assert world.server.get(ALLOCATIONS, ("", "vision")) is None
    queues = {queue["metadata"]["name"] for queue in world.server.objects(CLUSTER_QUEUES)}
    assert queues == {"research"}
    for kind in (LOCAL_QUEUES, SERVICES):
        namespaces = {obj["metadata"].get("namespace") for obj in world.server.objects(kind)}
        assert namespaces == {"research"}
    namespace = existing(world.server, NAMESPACES, ("", "vision"))["metadata"]
    assert not {names.TEAM, names.ALLOCATION} & namespace["labels"].keys(), "it belongs to no team"
    assert namespace["labels"][names.MANAGED_BY] == names.MANAGED_BY_CEDE
    assert not {names.ACCELERATORS, names.CONTROLLERS} & namespace["annotations"].keys()
    put_allocation(world.server, "vision")
    await world.settle()
    assert world.ready()["status"] == "True", "a namespace that Cede created may be used again"


async def test_deletion_works_without_a_policy(world: World) -> None:
    await world.settle()
    world.server.remove(POLICIES, ("", "default"))
    await world.controller.client.delete(ALLOCATIONS, ("", "vision"))
    await world.settle()
    assert world.server.get(ALLOCATIONS, ("", "vision")) is None
    assert world.ready("research")["reason"] == "NoPolicy"
    assert world.nominal_quota("research") == "4", "quotas stay as they are"
