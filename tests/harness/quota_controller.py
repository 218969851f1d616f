"""A server, a quota_controller and a clock: what the tests of its shell share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CLUSTER_QUEUES,
    CLUSTER_ROLE_BINDINGS,
    COHORTS,
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
from quota_controller.controller import Controller
from tests.fakes.api_server import ApiServer

START = 1_800_000_000.0
MADE = (
    RESOURCE_FLAVORS,
    COHORTS,
    PRIORITY_CLASSES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_QUEUES,
    NAMESPACES,
    LOCAL_QUEUES,
    SERVICES,
    SECRETS,
    ROLE_BINDINGS,
)


class World:
    """A server, a controller and a clock."""

    def __init__(self, server: ApiServer, controller: Controller) -> None:
        self.server = server
        self.controller = controller
        self.now = START
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
        held = [
            o
            for o in self.server.objects(kind)
            if labels.items() <= o["metadata"].get("labels", {}).items()
        ]
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
            active = {
                "type": "Active",
                "status": str(not held),
                "reason": "Stopped" if held else "Ready",
                "message": "m",
            }
            count = reserving.get(
                queue["metadata"]["name"], queue.get("status", {}).get("reservingWorkloads", 0)
            )
            status = {
                **queue.get("status", {}),
                "conditions": [active],
                "reservingWorkloads": count,
            }
            if queue.get("status") != status:
                self.server.put(CLUSTER_QUEUES, {**queue, "status": status})

    def renew(self, holder: str = "scheduler-0") -> None:
        spec = {"holderIdentity": holder, "renewTime": rfc3339(self.now, micro=True)}
        meta = {"name": names.SCHEDULER_LEASE, "namespace": names.SYSTEM_NAMESPACE}
        self.server.put(LEASES, {"metadata": meta, "spec": spec})

    def queue(self, name: str = "vision") -> Json:
        return there(self.server, CLUSTER_QUEUES, ("", name))["spec"]  # type: ignore[no-any-return]

    def nominal(self, name: str = "vision") -> str:
        return str(
            self.queue(name)["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"]
        )

    def ready(self, name: str = "vision") -> Json:
        status = there(self.server, ALLOCATIONS, ("", name))["status"]
        return next(c for c in status["conditions"] if c["type"] == "Ready")


def there(server: ApiServer, kind: Kind, key: tuple[str, str]) -> Json:
    found = server.get(kind, key)
    assert found is not None, f"{kind.kind} {key} is not there"
    return found


def _versions(objects: Any) -> set[Any]:
    return {
        (o["metadata"]["uid"], o["metadata"]["resourceVersion"])
        if isinstance(o, dict)
        else (o.metadata.uid, o.metadata.resourceVersion)
        for o in objects
    }


@asynccontextmanager
async def started(server: ApiServer, *, heard: bool = True) -> AsyncIterator[World]:
    """A controller that listens; with `heard`, one that has heard everything."""
    async with server.client(names.QUOTA_CONTROLLER) as client:
        world = World(server, Controller(client, asyncio.Event(), lambda: START))
        tasks = [asyncio.create_task(cache.run()) for cache in world.controller.caches]
        try:
            for cache in world.controller.caches if heard else ():
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
    server.put(
        POLICIES,
        {
            "metadata": {"name": "default"},
            "spec": {"instanceTypes": types, "priorityClasses": classes},
        },
    )
    allocate(server, "vision", members=[{"kind": "Group", "name": "vision-team"}])
    allocate(server, "research")
    for name in ("n1", "n2"):
        place_node(server, name)


def allocate(server: ApiServer, name: str, **spec: Any) -> None:
    quotas = [{"instanceType": "local", "count": 1}]
    old = server.get(ALLOCATIONS, ("", name)) or {"metadata": {"name": name}}
    server.put(ALLOCATIONS, {**old, "spec": {"quotas": quotas, **spec}})


def place_node(
    server: ApiServer, name: str, ready: str = "True", heartbeat: str | None = None
) -> None:
    labels = {"node.kubernetes.io/instance-type": "local"}
    holds = {names.GPU: "4", "cpu": "2", "memory": "24Gi"}
    condition = {
        "type": "Ready",
        "status": ready,
        "lastTransitionTime": None,
        "lastHeartbeatTime": heartbeat,
    }
    status = {"allocatable": holds, "conditions": [condition]}
    server.put(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status})


@asynccontextmanager
async def filled() -> AsyncIterator[World]:
    """A filled server with a scheduler that leads, nothing made yet."""
    async with ApiServer() as server:
        fill(server)
        async with started(server) as world:
            world.renew()
            yield world
