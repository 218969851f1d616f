"""The shell against an API server: what is written when something changes, and what is not."""

import asyncio
import base64
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CLUSTER_QUEUES,
    CLUSTER_ROLE_BINDINGS,
    COHORTS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    LOCAL_QUEUES,
    NAMESPACES,
    POLICIES,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    rfc3339,
)
from elastic_runtime.contract import derive_key
from quota_controller.controller import ROOT
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import refusal
from tests.harness.quota_controller import (
    MADE,
    World,
    allocate,
    fill,
    filled,
    place_node,
    started,
    there,
)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with filled() as world:
        yield world


async def test_from_nothing_to_everything(world: World) -> None:
    await world.settle()
    made = {
        (
            f"{kind.kind} "
            f"{'/'.join(filter(None, (o['metadata'].get('namespace'), o['metadata']['name'])))}"
        )
        for kind in MADE
        for o in world.server.objects(kind)
    }
    assert made == {
        "ResourceFlavor local",
        "Cohort cede",
        "WorkloadPriorityClass training",
        "ClusterRoleBinding cede-members",
        "ClusterQueue vision",
        "Namespace vision",
        "LocalQueue vision/default",
        "Service vision/cede-peers",
        "Secret vision/cede-control",
        "RoleBinding vision/cede-members",
        "ClusterQueue research",
        "Namespace research",
        "LocalQueue research/default",
        "Service research/cede-peers",
        "Secret research/cede-control",
        "Secret cede-system/cede-root",
    }
    assert world.ready() | {"lastTransitionTime": "", "message": ""} == {
        "type": "Ready",
        "status": "True",
        "reason": "InPlace",
        "observedGeneration": 1,
        "lastTransitionTime": "",
        "message": "",
    }
    assert world.ready()["message"] == (
        "team vision owns 4 nvidia.com/gpu, 2 cpu, 24 GiB memory; it lends what is idle and borrows"
    )
    status = there(world.server, ALLOCATIONS, ("", "vision"))["status"]
    assert (status["owns"], status["used"], status["lent"], status["borrowed"]) == (
        "4 gpu",
        "0 gpu",
        "0 gpu",
        "0 gpu",
    )


async def test_without_kueue_nothing_is_made_and_the_policy_says_why_until_it_is_there() -> None:
    async def absent(_: web.Request) -> web.Response:
        return refusal(404, "NotFound", "the server could not find the requested resource")

    async with ApiServer() as server:
        fill(server)
        server.script("GET", CLUSTER_QUEUES.path(), absent)
        server.script("GET", DEPLOYMENTS.path(namespace="kueue-system"), absent)
        async with started(server, heard=False) as world:
            while not (written := server.writes()):
                await asyncio.sleep(0)
                await world.controller.reconcile()
            assert written[0] == ("PATCH", POLICIES.path(("", "default"), subresource="status"))
            assert not [path for _, path in written[1:] if "events" not in path]
            [ready] = there(server, POLICIES, ("", "default"))["status"]["conditions"]
            assert "ClusterQueue cannot be read" in ready["message"]
            world.renew()
            for cache in world.controller.caches:
                await cache.synced.wait()
            await world.settle()
            assert world.ready()["status"] == "True"


async def test_nothing_is_written_when_nothing_changed(world: World) -> None:
    await world.settle()
    world.now += 5
    world.renew()
    place_node(world.server, "n1")
    assert await world.settle() == []


async def test_an_hour_in_which_only_hearts_beat_is_an_hour_without_a_write(world: World) -> None:
    await world.settle()
    before = len(world.server.writes())
    for minute in range(60):
        world.now += 60
        world.renew()
        place_node(world.server, "n1", heartbeat=f"2027-01-01T00:{minute:02}:00Z")
        await world.caught_up()
        await world.controller.reconcile()
    assert world.server.writes()[before:] == []


async def test_an_allocation_carries_the_finalizer_before_anything_is_made_for_it(
    world: World,
) -> None:
    written = await world.settle()
    first_queue = written.index(("PATCH", CLUSTER_QUEUES.path(("", "vision"))))
    assert written.index(("PATCH", ALLOCATIONS.path(("", "vision")))) < first_queue


async def test_a_change_is_one_write_to_the_queue_and_its_statuses(world: World) -> None:
    await world.settle()
    allocate(
        world.server,
        "vision",
        quotas=[{"instanceType": "local", "accelerators": 2}],
        members=[{"kind": "Group", "name": "x"}],
    )
    written = {path for _, path in await world.settle() if "events" not in path}
    assert world.nominal() == "2"
    assert written == {
        CLUSTER_QUEUES.path(("", "vision")),
        COHORTS.path(("", "cede")),
        ROLE_BINDINGS.path(("vision", "cede-members")),
        CLUSTER_ROLE_BINDINGS.path(("", "cede-members")),
        ALLOCATIONS.path(("", "vision"), subresource="status"),
        POLICIES.path(("", "default"), subresource="status"),
    }


@pytest.mark.parametrize(("gives", "gets"), [("vision", "research"), ("research", "vision")])
async def test_quota_that_moves_is_given_up_before_it_is_given(
    world: World, gives: str, gets: str
) -> None:
    """Else for a moment Kueue could admit more than there is."""
    await world.settle()
    allocate(world.server, gives, quotas=[{"instanceType": "local", "accelerators": 1}])
    allocate(world.server, gets, quotas=[{"instanceType": "local", "accelerators": 7}])
    written = [path for _, path in await world.settle() if path.startswith(CLUSTER_QUEUES.path())]
    assert written == [CLUSTER_QUEUES.path(("", name)) for name in (gives, gets)]


async def test_capacity_that_a_team_gets_is_taken_from_all_first(world: World) -> None:
    allocate(world.server, "research", quotas=[])
    await world.settle()
    allocate(world.server, "research")
    written = [
        path
        for _, path in await world.settle()
        if path.startswith((CLUSTER_QUEUES.path(), COHORTS.path()))
    ]
    assert written == [COHORTS.path(("", "cede")), CLUSTER_QUEUES.path(("", "research"))]


async def test_usage_is_told_and_who_lends_it(world: World) -> None:
    await world.settle()
    queue = there(world.server, CLUSTER_QUEUES, ("", "research"))
    reserved = [
        {"name": "local", "resources": [{"name": names.GPU, "total": "7", "borrowed": "3"}]}
    ]
    world.server.put(
        CLUSTER_QUEUES, {**queue, "status": {**queue["status"], "flavorsReservation": reserved}}
    )
    await world.settle()
    research, vision = (
        there(world.server, ALLOCATIONS, ("", name))["status"] for name in ("research", "vision")
    )
    assert (research["used"], research["borrowed"], vision["lent"]) == ("7 gpu", "3 gpu", "3 gpu")


async def test_lost_nodes_lower_every_quota_and_it_is_said_and_undone(world: World) -> None:
    await world.settle()
    place_node(world.server, "n2", ready="Unknown")
    await world.settle()
    assert (world.nominal("vision"), world.nominal("research")) == ("2", "2")
    assert world.ready()["reason"] == "Short"
    assert "2 nvidia.com/gpu" in world.ready()["message"]
    place_node(world.server, "n2")
    await world.settle()
    assert (world.nominal("vision"), world.nominal("research")) == ("4", "4")
    assert world.ready()["reason"] == "InPlace"


# --- delete ---------------------------------------------------------------------------------------
async def test_deleting_holds_drains_and_leaves_the_namespace_and_its_jobs(world: World) -> None:
    await world.settle()
    world.kueue(vision=2)
    await world.controller.client.delete(ALLOCATIONS, ("", "vision"))
    await world.settle()
    assert world.queue()["stopPolicy"] == "Hold"
    assert (
        world.ready()["reason"],
        "2 workloads still hold its quota" in world.ready()["message"],
    ) == ("Draining", True)
    world.kueue(vision=0)
    await world.settle()
    assert world.server.get(ALLOCATIONS, ("", "vision")) is None
    assert {o["metadata"]["name"] for o in world.server.objects(CLUSTER_QUEUES)} == {"research"}
    assert {
        o["metadata"].get("namespace")
        for kind in (LOCAL_QUEUES, SERVICES)
        for o in world.server.objects(kind)
    } == {"research"}
    labels = there(world.server, NAMESPACES, ("", "vision"))["metadata"]["labels"]
    assert labels == {names.MANAGED_BY: names.MANAGED_BY_CEDE}, "nobody's team any more"
    allocate(world.server, "vision")
    await world.settle()
    assert world.ready()["status"] == "True", "what we made we may use again"


async def test_deleting_works_without_a_policy(world: World) -> None:
    await world.settle()
    world.server.remove(POLICIES, ("", "default"))
    await world.controller.client.delete(ALLOCATIONS, ("", "vision"))
    await world.settle()
    assert world.server.get(ALLOCATIONS, ("", "vision")) is None
    assert world.ready("research")["reason"] == "NoPolicy"
    assert world.nominal("research") == "4", "quotas stay as they are"


async def test_news_is_an_event_once(world: World) -> None:
    await world.settle()
    told = [e["note"] for e in world.server.objects(EVENTS) if e["regarding"]["name"] == "vision"]
    assert told == [world.ready()["message"]]


# --- keys -----------------------------------------------------------------------------------------
async def test_a_lost_root_key_is_said_and_stops_nothing_but_new_keys(world: World) -> None:
    meta = {"name": ROOT[1], "namespace": ROOT[0]}
    await world.settle()
    had = there(world.server, SECRETS, ("vision", "cede-control"))["data"]
    # a restart
    world.controller.root = b""
    world.server.put(SECRETS, {"metadata": meta, "data": {"keys": "eA=="}})
    allocate(world.server, "late")
    await world.settle()
    status = there(world.server, POLICIES, ("", "default"))["status"]
    [ready] = [c for c in status["conditions"] if c["type"] == "Ready"]
    assert (ready["reason"], "put its entry key back" in ready["message"]) == ("RootKeyLost", True)
    assert there(world.server, SECRETS, ("vision", "cede-control"))["data"] == had
    assert world.ready("late")["status"] == "True", "quota does not hang on it"
    assert world.server.get(SECRETS, ("late", "cede-control")) is None
    world.server.put(
        SECRETS, {"metadata": meta, "data": {"key": base64.b64encode(b"k" * 64).decode()}}
    )
    await world.settle()
    assert world.server.get(SECRETS, ("late", "cede-control"))


async def test_the_root_key_is_made_once_and_namespaces_derive_theirs(world: World) -> None:
    await world.settle()
    root = base64.b64decode(there(world.server, SECRETS, ROOT)["data"]["key"])
    assert len(root) == 64
    assert bytes.fromhex(root.decode())
    control = there(world.server, SECRETS, ("vision", "cede-control"))["data"]["key"]
    assert base64.b64decode(control) == derive_key(root, "vision")
    async with started(world.server) as second:
        assert await second.settle() == [], "another leader finds it and changes nothing"


# --- the watchdog ---------------------------------------------------------------------------------
async def test_without_a_leader_kueue_preempts_by_its_own_rules_until_one_is_back(
    world: World,
) -> None:
    never = {"Never"}
    stock = {"Any", "LowerPriority"}
    await world.settle()
    assert set(world.queue()["preemption"].values()) == never
    world.now += 119
    assert await world.settle() == [], "not yet"
    world.now += 2
    await world.settle()
    assert set(world.queue()["preemption"].values()) == stock
    status = there(world.server, POLICIES, ("", "default"))["status"]
    assert (status["preemption"], status.get("leader", "")) == ("Kueue", "")
    assert (
        "no scheduler has led for 120 s"
        in next(c for c in status["conditions"] if c["type"] == "SchedulerLeads")["message"]
    )
    world.renew("scheduler-1")
    await world.settle()
    assert set(world.queue()["preemption"].values()) == never


async def test_a_scheduler_with_a_slow_clock_still_leads(world: World) -> None:
    await world.settle()
    for _ in range(5):
        world.now += 60
        meta = {"name": names.SCHEDULER_LEASE, "namespace": names.SYSTEM_NAMESPACE}
        spec = {"holderIdentity": "s", "renewTime": rfc3339(world.now - 3600, micro=True)}
        world.server.put(LEASES, {"metadata": meta, "spec": spec})
        await world.settle()
        assert world.queue()["preemption"]["reclaimWithinCohort"] == "Never"


async def test_the_next_pass_comes_when_the_watchdog_would_strike(world: World) -> None:
    await world.settle()
    world.now += 110
    await world.caught_up()
    assert 9 < await world.controller.reconcile() < 11
