"""The controller against an API server: an allocation that is too large harms nobody but itself."""

from cede.api.objects import ALLOCATIONS, POLICIES, Json
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.harness.quota_controller import (
    World,
    existing,
    fill,
    put_allocation,
    put_node,
    started,
)


def quotas_of_teams(world: World, *names: str) -> dict[str, str]:
    return {name: world.nominal_quota(name) for name in names}


def nodes(count: int) -> list[Json]:
    return [{"instanceType": "local", "count": count}]


async def test_a_typed_50_cuts_nobody(world: World) -> None:
    """Typed by mistake, `count: 50` for one team cut every other team from 4 to 0 accelerators."""
    await world.settle()
    put_allocation(world.server, "vision", quotas=nodes(50))
    await world.settle()
    assert quotas_of_teams(world, "vision", "research") == {"vision": "4", "research": "4"}
    ready = world.ready()
    assert (ready["status"], ready["reason"]) == ("True", "Oversubscribed")
    assert "of local, 1 of 50 nodes fits; lower the entry to what fits" in ready["message"]
    assert world.ready("research")["reason"] == "Ready"
    put_allocation(world.server, "vision", quotas=nodes(1))
    await world.settle()
    assert world.ready()["reason"] == "Ready"


async def test_a_new_node_is_granted_to_the_team_that_waits_for_it(world: World) -> None:
    await world.settle()
    put_allocation(world.server, "vision", quotas=nodes(50))
    await world.settle()
    put_node(world.server, "n3")
    await world.settle()
    assert quotas_of_teams(world, "vision", "research") == {"vision": "8", "research": "4"}
    assert "2 of 50 nodes fit" in world.ready()["message"]


async def test_a_node_that_fails_is_told_apart_from_one_that_never_was(world: World) -> None:
    put_node(world.server, "n3", ready="Unknown")
    await world.settle()
    put_allocation(world.server, "vision", quotas=nodes(2))
    await world.settle()
    ready = world.ready()
    assert ready["reason"] == "InsufficientNodes"
    assert (
        "1 of 2 nodes fits, and 2 of 2 nodes fit when all nodes are back: 1 of 3 down"
        in ready["message"]
    )
    put_allocation(world.server, "vision", quotas=nodes(50))
    await world.settle()
    ready = world.ready()
    assert ready["reason"] == "Oversubscribed"
    assert "1 of 50 nodes fits, and 2 of 50 nodes fit when" in ready["message"]
    put_node(world.server, "n3")
    await world.settle()
    assert quotas_of_teams(world, "vision", "research") == {"vision": "8", "research": "4"}


async def test_what_was_granted_survives_a_restart_of_the_controller() -> None:
    """Without the statuses the new request of research, the smallest, would come first."""
    async with ApiServer() as server:
        fill(server)
        put_allocation(server, "vision", quotas=nodes(2))
        put_allocation(server, "research", quotas=[])
        async with started(server) as world:
            world.renew_lease()
            await world.settle()
            assert world.nominal_quota() == "8"
        put_allocation(server, "research", quotas=nodes(1))
        async with started(server) as world:
            world.renew_lease()
            await world.settle()
            assert quotas_of_teams(world, "vision", "research") == {"vision": "8", "research": "0"}
            assert world.status("research")["quotas"][0]["granted"]["nvidia.com/gpu"] == "0"


async def test_two_edits_before_the_watch_shows_the_first_status_grant_nothing_twice(
    world: World,
) -> None:
    put_allocation(world.server, "research", quotas=[])
    await world.settle()
    cache = world.controller.allocations
    old_statuses = {key: allocation.status for key, allocation in cache.objects.items()}
    put_allocation(world.server, "vision", quotas=nodes(2))
    await world.sync_caches()
    await world.controller.reconcile()
    put_allocation(world.server, "research", quotas=nodes(1))
    await world.sync_caches()
    current = dict(cache.objects)
    # the watch shows the second edit, and still the statuses from before the first
    stale = {
        key: allocation.model_copy(update={"status": old_statuses[key]})
        for key, allocation in current.items()
    }
    cache._objects = dict(stale)
    await world.controller.reconcile()
    for key, allocation in current.items():
        if cache._objects[key] is stale[key]:
            cache._objects[key] = allocation
    await world.settle()
    assert quotas_of_teams(world, "vision", "research") == {"vision": "8", "research": "0"}


async def test_a_replica_that_leads_again_knows_what_another_granted(world: World) -> None:
    """While it was a standby, research was lowered and vision was granted its node."""
    await world.settle()
    put_allocation(world.server, "research", quotas=nodes(0))
    put_allocation(world.server, "vision", quotas=nodes(2))
    async with started(world.server) as other:
        await other.settle()
        assert other.nominal_quota() == "8"
    put_allocation(world.server, "research", quotas=nodes(1))
    world.controller.begin()
    await world.settle()
    assert quotas_of_teams(world, "vision", "research") == {"vision": "8", "research": "0"}


async def test_what_was_granted_stays_granted_while_the_status_that_keeps_it_is_refused(
    world: World,
) -> None:
    """As long as the process leads. Before, it was forgotten after 5 s."""
    put_allocation(world.server, "vision", quotas=nodes(0))
    await world.settle()
    denial = 'admission webhook "example" denied the request: no'
    path = ALLOCATIONS.path(("", "research"), subresource="status")
    world.server.script("PATCH", path, *[refuses(403, "Forbidden", denial)] * 99)
    for name, count in (("research", 2), ("vision", 1)):
        put_allocation(world.server, name, quotas=nodes(count))
        for _ in range(2):
            world.run_kueue()
            await world.sync_caches()
            await world.controller.reconcile()
            world.now += 60
            world.renew_lease()
    assert world.status("research")["quotas"][0]["granted"]["nvidia.com/gpu"] == "4"
    assert quotas_of_teams(world, "vision", "research") == {"vision": "0", "research": "8"}


async def test_a_status_of_an_older_version_is_granted_as_far_as_it_fits() -> None:
    """Not by its `healthy` amounts, which may be those of an outage."""
    async with ApiServer() as server:
        fill(server)
        for name in ("vision", "research"):
            allocation = existing(server, ALLOCATIONS, ("", name))
            amounts = {"nvidia.com/gpu": "4", "cpu": "2", "memory": "24Gi"}
            healthy = {"nvidia.com/gpu": "2", "cpu": "1", "memory": "12Gi"}
            entry = {"instanceType": "local", "nominal": amounts, "healthy": healthy}
            status = {"observedGeneration": 1, "quotas": [entry]}
            server.put(ALLOCATIONS, {**allocation, "status": status})
        put_node(server, "n2", ready="False")
        put_allocation(server, "a", quotas=nodes(1))
        async with started(server) as world:
            world.renew_lease()
            await world.settle()
            put_node(server, "n2")
            await world.settle()
            quotas = quotas_of_teams(world, "a", "vision", "research")
            assert quotas == {"a": "0", "vision": "4", "research": "4"}


async def test_a_type_that_the_policy_lacks_for_a_moment_keeps_its_grants(world: World) -> None:
    await world.settle()
    policy = existing(world.server, POLICIES, ("", "default"))
    types = policy["spec"]["instanceTypes"]
    other = {"name": "other", "accelerators": 1, "cpu": "1", "memory": "1Gi"}
    without = {**policy, "spec": {**policy["spec"], "instanceTypes": [other]}}
    world.server.put(POLICIES, without)
    await world.settle()
    [kept] = world.status()["quotas"]
    assert kept["granted"]["nvidia.com/gpu"] == "4"
    put_allocation(world.server, "a", quotas=nodes(1))
    await world.settle()
    restored = existing(world.server, POLICIES, ("", "default"))
    restored["spec"]["instanceTypes"] = types
    world.server.put(POLICIES, restored)
    await world.settle()
    quotas = quotas_of_teams(world, "a", "vision", "research")
    assert quotas == {"a": "0", "vision": "4", "research": "4"}


async def test_nothing_is_written_when_an_oversubscribed_cluster_is_quiet(world: World) -> None:
    put_allocation(world.server, "vision", quotas=nodes(50))
    await world.settle()
    world.now += 5
    world.renew_lease()
    assert await world.settle() == []
