"""A new process, a second installation and a moving team take nothing from running jobs."""

import pytest

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NAMESPACES,
    POLICIES,
    RESOURCE_FLAVORS,
    SECRETS,
    Json,
)
from tests.fakes.api_server import ApiServer
from tests.harness.quota_controller import (
    World,
    condition_of,
    existing,
    fill,
    filled,
    put_allocation,
    started,
)

VISION = ("", "vision")


def deletions(server: ApiServer) -> list[str]:
    return [path for method, path in server.writes() if method == "DELETE"]


def team_label(server: ApiServer, namespace: str = "vision") -> str:
    labels: Json = existing(server, NAMESPACES, ("", namespace))["metadata"]["labels"]
    return str(labels.get(names.TEAM, ""))


async def settle_with_a_job(world: World) -> None:
    """Both teams are in place, and a job of team vision holds quota."""
    world.renew_lease()
    await world.settle()
    world.run_kueue(vision=1)
    await world.settle()


def removed_from(server: ApiServer) -> list[str]:
    """The names of queues, LocalQueues and Secrets that team vision lacks."""
    place = ("vision", names.LOCAL_QUEUE)
    secret = ("vision", names.CONTROL_SECRET)
    keys = ((CLUSTER_QUEUES, VISION), (LOCAL_QUEUES, place), (SECRETS, secret))
    return [kind.kind for kind, key in keys if server.get(kind, key) is None]


async def test_a_new_process_takes_nothing_of_an_allocation_that_it_cannot_read() -> None:
    """After a downgrade: it has a value that this version does not know."""
    async with ApiServer() as server:
        fill(server)
        async with started(server) as world:
            await settle_with_a_job(world)
        newer = existing(server, ALLOCATIONS, VISION)
        newer["spec"]["sharing"] = {"strategy": "LendAtNight"}
        server.put(ALLOCATIONS, newer)
        put_allocation(server, "research", quotas=[{"instanceType": "local", "count": 2}])
        async with started(server) as world:
            world.renew_lease()
            for _ in range(3):
                await world.controller.reconcile()
            assert (deletions(server), team_label(server)) == ([], "vision")
            assert world.nominal_quota("research") == "4", "not what team vision has"
            ready = condition_of(world.policy_status(), "Ready")
            assert ready["reason"] == "ObjectsUnreadable"
            assert "ComputeAllocation vision" in ready["message"]


@pytest.mark.parametrize("with_policy", [True, False])
async def test_installed_again_it_takes_nothing_from_running_jobs(with_policy: bool) -> None:
    """The controllers run before the policy and the allocations are applied."""
    async with ApiServer() as server:
        fill(server)
        async with started(server) as world:
            await settle_with_a_job(world)
        spec = existing(server, POLICIES, ("", names.POLICY_NAME))
        for name in ("vision", "research"):
            server.remove(ALLOCATIONS, ("", name))
        if not with_policy:
            server.remove(POLICIES, ("", names.POLICY_NAME))
        async with started(server) as world:
            await world.settle()
            assert (removed_from(server), team_label(server)) == ([], "vision")
            assert server.get(RESOURCE_FLAVORS, ("", "local")), "the queue has it"
            assert world.queue_spec()["stopPolicy"] == "Hold"
            assert server.get(CLUSTER_QUEUES, ("", "research")) is None, "nobody uses it"
            server.put(POLICIES, spec)
            put_allocation(server, "vision")
            world.renew_lease()
            await world.settle()
            assert (world.queue_spec()["stopPolicy"], world.ready()["status"]) == ("None", "True")


async def test_what_is_left_of_an_installation_goes_when_the_last_job_ends() -> None:
    async with ApiServer() as server:
        fill(server)
        async with started(server) as world:
            await settle_with_a_job(world)
        server.remove(ALLOCATIONS, VISION)
        async with started(server) as world:
            world.renew_lease()
            await world.settle()
            assert removed_from(server) == []
            world.run_kueue(vision=0)
            await world.settle()
            assert removed_from(server) == ["ClusterQueue", "LocalQueue", "Secret"]
            assert team_label(server) == ""


async def test_a_team_moves_to_another_namespace_when_its_last_job_there_ends() -> None:
    async with filled() as world:
        await settle_with_a_job(world)
        put_allocation(world.server, "vision", namespace={"name": "lab"})
        await world.settle()
        assert removed_from(world.server) == []
        assert (team_label(world.server), world.status()["namespace"]) == ("vision", "vision")
        assert world.ready()["reason"] == "NamespaceInUse"
        world.run_kueue(vision=0)
        world.now += 60
        world.renew_lease()
        await world.settle()
        assert removed_from(world.server) == ["LocalQueue", "Secret"]
        assert (team_label(world.server), team_label(world.server, "lab")) == ("", "vision")
        assert (world.status()["namespace"], world.ready()["status"]) == ("lab", "True")


async def test_a_team_that_is_corrected_after_a_conflict_stays_in_its_namespace() -> None:
    async with filled() as world:
        await settle_with_a_job(world)
        for team in ("research", "vision-2"):
            put_allocation(world.server, "vision", team=team)
            world.now += 60
            world.renew_lease()
            await world.settle()
            assert (removed_from(world.server), world.status()["namespace"]) == ([], "vision")
        assert team_label(world.server) == "vision-2"
