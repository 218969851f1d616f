"""The scheduler against a fake API server, a small Kueue and two teams."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    POLICIES,
    SECRETS,
    WORKLOADS,
)
from cede.kube import loop
from cede.kube.cache import all_synced
from cede.kube.client import Client
from scheduler.controller import Controller
from scheduler.leader_clock import LeaderClock
from tests.builders.kueue_objects import owners_of_kind
from tests.fakes.api_server import ApiServer
from tests.fakes.job_controller import ADDRESS, GPU, READY, SILENT_ADDRESS, TEMPLATE
from tests.fakes.kueue import FLAVOR, Kueue, workload_of
from tests.fakes.runtime import ROOT_KEY


async def schedule(client: Client) -> None:
    """What a leader does, without the lease."""
    controller = Controller(client, asyncio.Event(), LeaderClock())
    async with controller.runtimes, asyncio.TaskGroup() as tasks:
        for cache in controller.caches:
            tasks.create_task(cache.run())
        await all_synced(controller.caches)
        await loop.run(controller.reconcile, controller.wake)


@asynccontextmanager
async def leading(server: ApiServer) -> AsyncIterator[asyncio.Task[None]]:
    """The scheduler runs for as long as the context lasts; at the end it dies at once."""
    async with server.client("cede-scheduler") as client:
        task = asyncio.create_task(schedule(client))
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, ExceptionGroup):
                await task


class TwoTeams:
    """Two teams, `vision` and `research`, that own four accelerators each, on one node of eight."""

    def __init__(self, server: ApiServer, grace_s: int = 60, total: int = 8) -> None:
        self.server = server
        self.kueue = Kueue(server)
        status = {"allocatable": {GPU: str(total)}, "conditions": [READY]}
        server.put(NODES, {"metadata": {"name": "n1"}, "status": status})
        server.put(COHORTS, {"metadata": {"name": names.COHORT}, "spec": {}})
        secret = {"namespace": names.SYSTEM_NAMESPACE, "name": names.ROOT_SECRET}
        data = {"key": base64.b64encode(ROOT_KEY).decode()}
        server.put(SECRETS, {"metadata": secret, "data": data})
        self.configure(graceSeconds=grace_s, minRuntimeSeconds=0, growCooldownSeconds=120)
        for team in ("vision", "research"):
            self._make_team(team)

    def configure(self, mode: str = "Enforce", **preemption: int) -> None:
        """Change these fields of the policy."""
        old = self.server.get(POLICIES, ("", names.POLICY_NAME)) or {"spec": {}}
        settings = old["spec"].get("preemption", {}) | preemption
        self.server.put(
            POLICIES,
            {
                "metadata": {"name": names.POLICY_NAME},
                "spec": {"mode": mode, "preemption": settings},
            },
        )

    def _make_team(self, team: str) -> None:
        resource = {"name": GPU, "nominalQuota": "4"}
        group = {
            "coveredResources": [GPU],
            "flavors": [{"name": FLAVOR, "resources": [resource]}],
        }
        queue = {
            "cohortName": names.COHORT,
            "queueingStrategy": "BestEffortFIFO",
            "resourceGroups": [group],
        }
        labels = {names.MANAGED_BY: names.MANAGED_BY_CEDE}
        local_queue = {"namespace": team, "name": "default"}
        quota = {"instanceType": FLAVOR, "count": 1}
        self.server.put(
            CLUSTER_QUEUES, {"metadata": {"name": team, "labels": labels}, "spec": queue}
        )
        self.server.put(LOCAL_QUEUES, {"metadata": local_queue, "spec": {"clusterQueue": team}})
        self.server.put(ALLOCATIONS, {"metadata": {"name": team}, "spec": {"quotas": [quota]}})

    def job(
        self,
        team: str,
        name: str,
        size: int,
        sizes: str = "",
        address: str = SILENT_ADDRESS,
        priority: int = 50,
    ) -> str:
        """Create a Job and its Workload; elastic if `sizes` are given. Returns the Job's uid."""
        uid = self.put_job(team, name, size, sizes, address, priority)
        self.kueue.reconcile()
        return uid

    def put_job(
        self,
        team: str,
        name: str,
        size: int,
        sizes: str = "",
        address: str = SILENT_ADDRESS,
        priority: int = 50,
    ) -> str:
        """The same, before Kueue has seen it."""
        notes = {ADDRESS: address}
        if sizes:
            notes |= {
                names.SIZES: sizes,
                names.ELASTIC_JOB: "true",
                names.DESIRED_SIZE: str(size),
            }
        spec = {
            "parallelism": size,
            "completions": size,
            "completionMode": "Indexed",
            "template": TEMPLATE,
        }
        metadata = {"namespace": team, "name": name, "annotations": notes}
        job = self.server.put(JOBS, {"metadata": metadata, "spec": spec, "status": {}})
        self.server.put(WORKLOADS, workload_of(job, f"job-{name}", priority))
        return str(job["metadata"]["uid"])

    def edit(self, team: str, name: str, size: int) -> None:
        """The user changes the size of a Job that waits."""
        for kind, key in ((JOBS, name), (WORKLOADS, f"job-{name}")):
            body = self.server.get(kind, (team, key)) or {}
            if kind is JOBS:
                body["spec"]["parallelism"] = body["spec"]["completions"] = size
            else:
                body["spec"]["podSets"][0]["count"] = size
            self.server.put(kind, body)

    def rigid(self, team: str, name: str, size: int, kind: str) -> None:
        """Create the Workload of an object of this kind that is not elastic."""
        key = {"namespace": team, "name": name}
        job = {"metadata": key, "spec": {"parallelism": size}}
        workload = workload_of(job, f"job-{name}")
        workload["metadata"]["ownerReferences"] = owners_of_kind(kind)
        self.server.put(WORKLOADS, workload)
        self.kueue.reconcile()

    async def until(
        self, condition: Callable[[], bool], description: str, timeout_s: float = 20
    ) -> None:
        """Kueue reconciles after every change, until the condition holds. Raises AssertionError."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    version = self.server.version
                    self.kueue.reconcile()
                    if condition():
                        return
                    # what a runtime receives changes no object
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self.server.change(version), 0.1)
        except TimeoutError:
            raise AssertionError(f"waited in vain for {description}") from None
