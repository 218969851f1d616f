"""The shell against an API server: what is written, what is not, and that any interruption heals."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CLUSTER_QUEUES,
    COHORTS,
    EVENTS,
    LEASES,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    POLICIES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    Json,
    Kind,
    rfc3339,
)
from cede.kube.client import ApiError
from elastic_runtime.contract import derive_key
from quota_controller.controller import ROOT, Controller
from tests.wire import ApiServer, refusal

START = 1_800_000_000.0
MADE = (RESOURCE_FLAVORS, COHORTS, PRIORITY_CLASSES, CLUSTER_QUEUES, NAMESPACES, LOCAL_QUEUES, SERVICES, SECRETS, ROLE_BINDINGS)


class World:
    """A server, a controller and a clock."""

    def __init__(self, server: ApiServer, controller: Controller) -> None:
        self.server, self.controller, self.now = server, controller, START
        controller.clock = lambda: self.now

    async def caught_up(self) -> None:
        """Every cache shows what the server holds."""
        for cache in self.controller.caches:
            async with asyncio.timeout(5):
                while _versions(cache.objects.values()) != _versions(self._held(cache.kind)):  # noqa: ASYNC110  # no event says so
                    await asyncio.sleep(0)

    def _held(self, kind: Kind) -> list[Json]:
        ours = kind in self.controller.raw and kind not in (NAMESPACES, SECRETS)
        labels = {names.MANAGED_BY: names.MANAGED_BY_CEDE} if ours else {}
        held = [o for o in self.server.objects(kind) if labels.items() <= o["metadata"].get("labels", {}).items()]
        return [o for o in held if kind != SECRETS or o["metadata"]["name"] == names.CONTROL_SECRET]

    async def settle(self, *, kueue: bool = True) -> list[tuple[str, str]]:
        """Passes until one writes nothing. Returns what was written."""
        written = len(self.server.writes())
        for _ in range(12):
            if kueue:
                self.kueue()
            await self.caught_up()
            before = len(self.server.writes())
            await self.controller.reconcile()
            if len(self.server.writes()) == before:
                return self.server.writes()[written:]
        raise AssertionError(f"never quiet: {self.server.writes()[-4:]}")

    def kueue(self, **reserving: int) -> None:
        """Kueue's part: it takes up queues, and says so."""
        for queue in self.server.objects(CLUSTER_QUEUES):
            held = queue["spec"].get("stopPolicy") == "Hold"
            active = {"type": "Active", "status": str(not held), "reason": "Stopped" if held else "Ready", "message": "m"}
            count = reserving.get(queue["metadata"]["name"], queue.get("status", {}).get("reservingWorkloads", 0))
            status = {**queue.get("status", {}), "conditions": [active], "reservingWorkloads": count}
            if queue.get("status") != status:
                self.server.put(CLUSTER_QUEUES, {**queue, "status": status})

    def renew(self, holder: str = "scheduler-0") -> None:
        spec = {"holderIdentity": holder, "renewTime": rfc3339(self.now, micro=True)}
        meta = {"name": names.SCHEDULER_LEASE, "namespace": names.SYSTEM_NAMESPACE}
        self.server.put(LEASES, {"metadata": meta, "spec": spec})

    def queue(self, name: str = "vision") -> Json:
        return _there(self.server, CLUSTER_QUEUES, ("", name))["spec"]  # type: ignore[no-any-return]

    def nominal(self, name: str = "vision") -> str:
        return str(self.queue(name)["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"])

    def ready(self, name: str = "vision") -> Json:
        status = _there(self.server, ALLOCATIONS, ("", name))["status"]
        return next(c for c in status["conditions"] if c["type"] == "Ready")


def _there(server: ApiServer, kind: Kind, key: tuple[str, str]) -> Json:
    found = server.get(kind, key)
    assert found is not None, f"{kind.kind} {key} is not there"
    return found


def _versions(objects: Any) -> set[Any]:
    return {
        (o["metadata"]["uid"], o["metadata"]["resourceVersion"]) if isinstance(o, dict)
        else (o.metadata.uid, o.metadata.resourceVersion)
        for o in objects
    }  # fmt: skip


@asynccontextmanager
async def started(server: ApiServer) -> AsyncIterator[World]:
    async with server.client(names.QUOTA_CONTROLLER) as client:
        world = World(server, Controller(client, asyncio.Event(), lambda: START))
        tasks = [asyncio.create_task(cache.run()) for cache in world.controller.caches]
        try:
            for cache in world.controller.caches:
                await cache.synced.wait()
            yield world
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def fill(server: ApiServer) -> None:
    """A policy, two allocations, two nodes of four accelerators."""
    types = [{"name": "local", "accelerators": 4, "cpu": "2", "memory": "16Gi"}]
    classes = [{"name": "training", "weight": 50}]
    server.put(POLICIES, {"metadata": {"name": "default"}, "spec": {"instanceTypes": types, "priorityClasses": classes}})
    allocate(server, "vision", members=[{"kind": "Group", "name": "vision-team"}])
    allocate(server, "research")
    for name in ("n1", "n2"):
        place_node(server, name)


def allocate(server: ApiServer, name: str, **spec: Any) -> None:
    quotas = [{"instanceType": "local", "count": 1}]
    old = server.get(ALLOCATIONS, ("", name)) or {"metadata": {"name": name}}
    server.put(ALLOCATIONS, {**old, "spec": {"quotas": quotas, **spec}})


def place_node(server: ApiServer, name: str, ready: str = "True") -> None:
    labels = {"node.kubernetes.io/instance-type": "local"}
    holds = {names.GPU: "4", "cpu": "2", "memory": "24Gi"}
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": None}
    status = {"allocatable": holds, "conditions": [condition]}
    server.put(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status})


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with ApiServer() as server:
        fill(server)
        async with started(server) as world:
            world.renew()
            yield world


async def test_from_nothing_to_everything(world: World) -> None:
    await world.settle()
    made = {f"{kind.kind} {'/'.join(filter(None, (o['metadata'].get('namespace'), o['metadata']['name'])))}"
            for kind in MADE for o in world.server.objects(kind)}  # fmt: skip
    assert made == {
        "ResourceFlavor local", "Cohort cede", "WorkloadPriorityClass training",
        "ClusterQueue vision", "Namespace vision", "LocalQueue vision/default", "Service vision/cede-peers",
        "Secret vision/cede-control", "RoleBinding vision/cede-members",
        "ClusterQueue research", "Namespace research", "LocalQueue research/default", "Service research/cede-peers",
        "Secret research/cede-control", "Secret cede-system/cede-root",
    }  # fmt: skip
    assert world.ready() | {"lastTransitionTime": "", "message": ""} == {
        "type": "Ready", "status": "True", "reason": "InPlace", "observedGeneration": 1, "lastTransitionTime": "", "message": "",
    }  # fmt: skip
    assert world.ready()["message"] == "team vision owns 4 nvidia.com/gpu, 2 cpu, 24Gi memory; it lends what is idle and borrows"
    status = _there(world.server, ALLOCATIONS, ("", "vision"))["status"]
    assert (status["owns"], status["used"], status["lent"], status["borrowed"]) == ("4 gpu", "0 gpu", "0 gpu", "0 gpu")


async def test_nothing_is_written_when_nothing_changed(world: World) -> None:
    await world.settle()
    world.now += 5
    world.renew()
    place_node(world.server, "n1")
    assert await world.settle() == []


async def test_an_allocation_carries_the_finalizer_before_anything_is_made_for_it(world: World) -> None:
    written = await world.settle()
    first_queue = written.index(("PATCH", CLUSTER_QUEUES.path(("", "vision"))))
    assert written.index(("PATCH", ALLOCATIONS.path(("", "vision")))) < first_queue


async def test_a_change_is_one_write_to_the_queue_and_its_statuses(world: World) -> None:
    await world.settle()
    allocate(world.server, "vision", quotas=[{"instanceType": "local", "accelerators": 2}], members=[{"kind": "Group", "name": "x"}])
    written = {path for _, path in await world.settle() if "events" not in path}
    assert world.nominal() == "2"
    assert written == {
        CLUSTER_QUEUES.path(("", "vision")), COHORTS.path(("", "cede")), ROLE_BINDINGS.path(("vision", "cede-members")),
        ALLOCATIONS.path(("", "vision"), subresource="status"), POLICIES.path(("", "default"), subresource="status"),
    }  # fmt: skip


async def test_usage_is_told_and_who_lends_it(world: World) -> None:
    await world.settle()
    queue = _there(world.server, CLUSTER_QUEUES, ("", "research"))
    reserved = [{"name": "local", "resources": [{"name": names.GPU, "total": "7", "borrowed": "3"}]}]
    world.server.put(CLUSTER_QUEUES, {**queue, "status": {**queue["status"], "flavorsReservation": reserved}})
    await world.settle()
    research, vision = (_there(world.server, ALLOCATIONS, ("", name))["status"] for name in ("research", "vision"))
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


# --- delete -------------------------------------------------------------------------------------------------------
async def test_deleting_holds_drains_and_leaves_the_namespace_and_its_jobs(world: World) -> None:
    await world.settle()
    world.kueue(vision=2)
    await world.controller.client.delete(ALLOCATIONS, ("", "vision"))
    await world.settle()
    assert world.queue()["stopPolicy"] == "Hold"
    assert (world.ready()["reason"], "2 workloads still hold its quota" in world.ready()["message"]) == ("Draining", True)
    world.kueue(vision=0)
    await world.settle()
    assert world.server.get(ALLOCATIONS, ("", "vision")) is None
    assert {o["metadata"]["name"] for o in world.server.objects(CLUSTER_QUEUES)} == {"research"}
    assert {o["metadata"].get("namespace") for kind in (LOCAL_QUEUES, SERVICES) for o in world.server.objects(kind)} == {"research"}
    labels = _there(world.server, NAMESPACES, ("", "vision"))["metadata"]["labels"]
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


# --- others -------------------------------------------------------------------------------------------------------
async def test_a_strangers_queue_is_never_touched_and_the_clash_is_said(world: World) -> None:
    stranger = world.server.put(CLUSTER_QUEUES, {"metadata": {"name": "vision"}, "spec": {"cohortName": "theirs"}})
    await world.settle(kueue=False)
    assert world.server.get(CLUSTER_QUEUES, ("", "vision")) == stranger
    assert world.ready()["reason"] == "NotOurs"
    assert "ClusterQueue vision exists and is not ours" in world.ready()["message"]
    assert world.server.get(LOCAL_QUEUES, ("vision", "default")) is None, "it would give away the stranger's quota"
    assert world.server.get(LOCAL_QUEUES, ("research", "default")), "others are served"
    world.server.remove(CLUSTER_QUEUES, ("", "vision"))
    await world.settle()
    assert world.ready()["status"] == "True"


async def test_an_object_of_ours_that_lost_its_labels_is_taken_back(world: World) -> None:
    await world.settle()
    queue = _there(world.server, CLUSTER_QUEUES, ("", "vision"))
    queue["metadata"] |= {"labels": {}, "managedFields": [{"manager": names.QUOTA_CONTROLLER, "operation": "Apply"}]}
    world.server.put(CLUSTER_QUEUES, queue)
    world.now += 60
    await world.settle()
    assert _there(world.server, CLUSTER_QUEUES, ("", "vision"))["metadata"]["labels"][names.ALLOCATION] == "vision"


async def test_manual_edits_are_put_back_and_the_schedulers_field_is_not_ours(world: World) -> None:
    await world.settle()
    queue = _there(world.server, CLUSTER_QUEUES, ("", "vision"))
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "400"
    queue["spec"]["queueingStrategy"] = "StrictFIFO"
    world.server.put(CLUSTER_QUEUES, queue)
    world.server.remove(SERVICES, ("vision", "cede-peers"))
    world.now += 60
    await world.settle()
    assert world.nominal() == "4"
    assert world.queue()["queueingStrategy"] == "StrictFIFO"
    assert world.server.get(SERVICES, ("vision", "cede-peers"))


async def test_what_the_server_refuses_is_said_and_the_rest_goes_on(world: World) -> None:
    path = CLUSTER_QUEUES.path(("", "research"))
    world.server.before = lambda method, at, body: refusal(422, "Invalid", "weight is wrong") if at == path else None
    world.kueue()
    for _ in range(3):
        await world.caught_up()
        await world.controller.reconcile()
        world.kueue()
    assert "ClusterQueue research was refused: weight is wrong" in world.ready("research")["message"]
    assert world.server.get(LOCAL_QUEUES, ("vision", "default"))
    world.server.before = lambda method, at, body: None
    await world.settle()
    assert world.ready("research")["status"] == "True"


async def test_news_is_an_event_once(world: World) -> None:
    await world.settle()
    told = [e["note"] for e in world.server.objects(EVENTS) if e["regarding"]["name"] == "vision"]
    assert told == [world.ready()["message"]]


# --- keys ---------------------------------------------------------------------------------------------------------
async def test_the_root_key_is_made_once_and_namespaces_derive_theirs(world: World) -> None:
    await world.settle()
    root = base64.b64decode(_there(world.server, SECRETS, ROOT)["data"]["key"])
    assert len(root) == 64
    assert bytes.fromhex(root.decode())
    control = _there(world.server, SECRETS, ("vision", "cede-control"))["data"]["key"]
    assert base64.b64decode(control) == derive_key(root, "vision")
    async with started(world.server) as second:
        assert await second.settle() == [], "another leader finds it and changes nothing"


# --- the watchdog -------------------------------------------------------------------------------------------------
async def test_without_a_leader_kueue_preempts_by_its_own_rules_until_one_is_back(world: World) -> None:
    never, stock = {"Never"}, {"Any", "LowerPriority"}
    await world.settle()
    assert set(world.queue()["preemption"].values()) == never
    world.now += 119
    assert await world.settle() == [], "not yet"
    world.now += 2
    await world.settle()
    assert set(world.queue()["preemption"].values()) == stock
    status = _there(world.server, POLICIES, ("", "default"))["status"]
    assert (status["preemption"], status.get("leader", "")) == ("Kueue", "")
    assert "no scheduler has led for 120 s" in next(c for c in status["conditions"] if c["type"] == "SchedulerLeads")["message"]
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


# --- interruptions ------------------------------------------------------------------------------------------------
def _state(server: ApiServer) -> dict[Any, Any]:
    volatile = ("uid", "resourceVersion", "creationTimestamp", "generation")
    return {
        (kind.kind, o["metadata"].get("namespace"), o["metadata"]["name"]): (
            {k: v for k, v in o["metadata"].items() if k not in volatile}, o.get("spec"),
        )
        for kind in (*MADE, ALLOCATIONS)
        for o in server.objects(kind)
    }  # fmt: skip


@pytest.mark.parametrize("crash_at", range(0, 24, 3))
async def test_a_crash_between_any_two_writes_heals(crash_at: int) -> None:
    left = [crash_at]

    def dies(method: str, path: str, body: Any) -> web.Response | None:
        left[0] -= 1
        return refusal(500, "InternalError", "power cut") if left[0] < 0 else None

    async with ApiServer() as server, ApiServer() as calm:
        for one in (server, calm):
            fill(one)
        server.before = dies
        async with started(server) as first:
            first.renew()
            with pytest.raises(ApiError):
                await first.settle()
        server.before = lambda method, path, body: None
        async with started(server) as second, started(calm) as reference:
            for world in (second, reference):
                world.renew()
                await world.settle()
        assert _state(server) == _state(calm)
