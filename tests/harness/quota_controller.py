"""The quota_controller against a fake API server and a clock: what the tests of its shell share."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CLUSTER_QUEUES,
    CLUSTER_ROLE_BINDINGS,
    COHORTS,
    CONFIG_MAPS,
    LEASES,
    LOCAL_QUEUES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    POLICIES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    Json,
    Key,
    Kind,
    condition,
    rfc3339,
)
from cede.kube.cache import Cache, all_synced
from cede.kueue_settings import config as kueue_config
from quota_controller.controller import Controller
from tests.fakes.api_server import ApiServer

START = 1_800_000_000.0
WRITTEN_KINDS = (
    RESOURCE_FLAVORS,
    COHORTS,
    PRIORITY_CLASSES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_QUEUES,
    NAMESPACES,
    LOCAL_QUEUES,
    SERVICES,
    NETWORK_POLICIES,
    RESOURCE_QUOTAS,
    SECRETS,
    ROLE_BINDINGS,
)
MAX_PASSES = 12


class World:
    """A fake API server, a controller and a clock, with the part of Kueue that it needs."""

    def __init__(self, server: ApiServer, controller: Controller) -> None:
        self.server = server
        self.controller = controller
        self.now = START
        controller.clock = lambda: self.now

    # --- the controller ---------------------------------------------------------------------------
    async def sync_caches(self) -> None:
        """Waits until every cache has what the server has."""
        for cache in self.controller.caches:
            async with asyncio.timeout(5):
                # no event tells that a cache has caught up
                while not self._is_synced(cache):  # noqa: ASYNC110
                    await asyncio.sleep(0)

    def _is_synced(self, cache: Cache[Any]) -> bool:
        return _versions(cache.objects.values()) == _versions(self._watched(cache))

    def _watched(self, cache: Cache[Any]) -> list[Json]:
        """The server's objects that the cache watches."""
        kind = cache.kind
        objects = self.server.objects(kind)
        if kind == CONFIG_MAPS:
            is_ledger = cache is self.controller.ledger_notes
            name = names.LEDGER if is_ledger else kueue_config.CONFIG_MAP[1]
            return [obj for obj in objects if obj["metadata"]["name"] == name]
        if kind == SECRETS:
            return [obj for obj in objects if obj["metadata"]["name"] == names.CONTROL_SECRET]
        if kind in self.controller.live and kind != NAMESPACES:
            ours = {names.MANAGED_BY: names.MANAGED_BY_CEDE}.items()
            return [obj for obj in objects if ours <= obj["metadata"].get("labels", {}).items()]
        return objects

    async def settle(self, *, kueue: bool = True) -> list[tuple[str, str]]:
        """Makes passes until one writes nothing. Returns the (method, path) of all writes."""
        first = len(self.server.writes())
        for _ in range(MAX_PASSES):
            if kueue:
                self.run_kueue()
            await self.sync_caches()
            before = len(self.server.writes())
            await self.controller.reconcile()
            if len(self.server.writes()) == before:
                return self.server.writes()[first:]
        raise AssertionError(f"the controller keeps writing: {self.server.writes()[-4:]}")

    # --- others in the cluster --------------------------------------------------------------------
    def run_kueue(self, **reserving: int) -> None:
        """Kueue reports every queue as active or stopped, and these numbers of workloads."""
        for queue in self.server.objects(CLUSTER_QUEUES):
            on_hold = queue["spec"].get("stopPolicy") == "Hold"
            active = {
                "type": "Active",
                "status": str(not on_hold),
                "reason": "Stopped" if on_hold else "Ready",
                "message": "m",
            }
            before = queue.get("status", {})
            name = queue["metadata"]["name"]
            count = reserving.get(name, before.get("reservingWorkloads", 0))
            status = {**before, "conditions": [active], "reservingWorkloads": count}
            if before != status:
                self.server.put(CLUSTER_QUEUES, {**queue, "status": status})

    def renew_lease(self, holder: str = "scheduler-0") -> None:
        """The scheduler renews its lease after a whole pass."""
        self.put_lease(holder, rfc3339(self.now, micro=True))

    def put_lease(self, holder: str, last_pass: str, unreadable: str = "") -> None:
        """A lease that was renewed now, after a pass at this time."""
        spec = {"holderIdentity": holder, "renewTime": rfc3339(self.now, micro=True)}
        metadata: Json = {"name": names.SCHEDULER_LEASE, "namespace": names.SYSTEM_NAMESPACE}
        notes = {names.LAST_PASS: last_pass, names.UNREADABLE: unreadable}
        metadata["annotations"] = {name: note for name, note in notes.items() if note}
        self.server.put(LEASES, {"metadata": metadata, "spec": spec})

    # --- what the server has ----------------------------------------------------------------------
    def queue_spec(self, name: str = "vision") -> Json:
        spec: Json = existing(self.server, CLUSTER_QUEUES, ("", name))["spec"]
        return spec

    def nominal_quota(self, name: str = "vision") -> str:
        """Accelerators in the team's queue."""
        [group] = self.queue_spec(name)["resourceGroups"]
        return str(group["flavors"][0]["resources"][0]["nominalQuota"])

    def status(self, name: str = "vision") -> Json:
        """The status of an allocation."""
        status: Json = existing(self.server, ALLOCATIONS, ("", name))["status"]
        return status

    def policy_status(self) -> Json:
        status: Json = existing(self.server, POLICIES, ("", "default"))["status"]
        return status

    def ready(self, name: str = "vision") -> Json:
        """Condition Ready of an allocation."""
        return condition_of(self.status(name), "Ready")


def existing(server: ApiServer, kind: Kind, key: Key) -> Json:
    """The object, which must exist."""
    obj = server.get(kind, key)
    assert obj is not None, f"{kind.kind} {key} does not exist"
    return obj


def condition_of(status: Json, type_: str) -> Json:
    """The condition of a status, which must exist."""
    conditions: list[Json] = status["conditions"]
    reported = condition(conditions, type_)
    assert reported is not None, f"no condition {type_} in {status}"
    return reported


def _versions(objects: Iterable[Any]) -> set[tuple[str, str]]:
    """(uid, resourceVersion) of raw or decoded objects."""
    versions = set()
    for obj in objects:
        if isinstance(obj, dict):
            versions.add((obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]))
        else:
            versions.add((obj.metadata.uid, obj.metadata.resourceVersion))
    return versions


# --- setting up -----------------------------------------------------------------------------------
@asynccontextmanager
async def started(server: ApiServer, *, synced: bool = True) -> AsyncIterator[World]:
    """A controller whose caches run; with `synced`, they have read everything once."""
    async with server.client(names.QUOTA_CONTROLLER) as client:
        world = World(server, Controller(client, asyncio.Event(), lambda: START))
        caches = world.controller.caches
        tasks = [asyncio.create_task(cache.run()) for cache in caches]
        try:
            if synced:
                await all_synced(caches)
            yield world
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def filled() -> AsyncIterator[World]:
    """A filled server on which a scheduler leads and the controller has written nothing yet."""
    async with ApiServer() as server:
        fill(server)
        async with started(server) as world:
            world.renew_lease()
            yield world


def fill(server: ApiServer) -> None:
    """Puts a policy, two allocations and two nodes of four accelerators each on the server."""
    types = [{"name": "local", "accelerators": 4, "cpu": "2", "memory": "16Gi"}]
    classes = [{"name": "training", "weight": 50}]
    spec = {"instanceTypes": types, "priorityClasses": classes}
    server.put(POLICIES, {"metadata": {"name": "default"}, "spec": spec})
    put_allocation(server, "vision", members=[{"kind": "Group", "name": "vision-team"}])
    put_allocation(server, "research")
    for name in ("n1", "n2"):
        put_node(server, name)


def put_allocation(server: ApiServer, name: str, **spec: Any) -> None:
    """Creates or replaces an allocation that owns one node."""
    quotas = [{"instanceType": "local", "count": 1}]
    before = server.get(ALLOCATIONS, ("", name)) or {"metadata": {"name": name}}
    server.put(ALLOCATIONS, {**before, "spec": {"quotas": quotas, **spec}})


def put_node(
    server: ApiServer, name: str, ready: str = "True", heartbeat: str | None = None
) -> None:
    """Creates or replaces a node of four accelerators."""
    labels = {"node.kubernetes.io/instance-type": "local"}
    ready_condition = {
        "type": "Ready",
        "status": ready,
        "lastTransitionTime": None,
        "lastHeartbeatTime": heartbeat,
    }
    status = {
        "allocatable": {names.GPU: "4", "cpu": "2", "memory": "24Gi"},
        "conditions": [ready_condition],
    }
    server.put(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status})
