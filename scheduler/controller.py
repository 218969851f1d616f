"""Observe, decide, apply: one pass of the scheduler."""

import asyncio
import base64
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.kueue import (
    ClusterQueue,
    Cohort,
    Job,
    LocalQueue,
    Node,
    Pod,
    ResourceFlavor,
    Workload,
)
from cede.api.objects import (
    ALLOCATIONS,
    CESSIONS,
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    POLICIES,
    RESOURCE_FLAVORS,
    SECRETS,
    WORKLOADS,
    Json,
    Kind,
)
from cede.api.policy import ClusterPolicy
from cede.kube.cache import Cache
from cede.kube.client import Client
from cede.kube.errors import NotFound
from elastic_runtime.contract import State
from scheduler import snapshot
from scheduler.apply import Applier
from scheduler.plan import Plan, plan
from scheduler.runtime_client import Endpoint, RuntimeClient
from scheduler.snapshot import RawObjects, Snapshot
from scheduler.workloads import AdmittedWorkload

log = logging.getLogger("scheduler")
BUSY_INTERVAL_S = 0.5
"""Until the next pass while a Cession is open, if no change wakes the scheduler before."""
QUIET_INTERVAL_S = 5.0
"""The same while none is open."""
KINDS: dict[str, tuple[Kind, type[Any]]] = {
    "workloads": (WORKLOADS, Workload),
    "jobs": (JOBS, Job),
    "pods": (PODS, Pod),
    "nodes": (NODES, Node),
    "cluster_queues": (CLUSTER_QUEUES, ClusterQueue),
    "local_queues": (LOCAL_QUEUES, LocalQueue),
    "cohorts": (COHORTS, Cohort),
    "resource_flavors": (RESOURCE_FLAVORS, ResourceFlavor),
    "allocations": (ALLOCATIONS, ComputeAllocation),
    "cessions": (CESSIONS, Cession),
}
"""By the field of RawObjects: what is cached for it."""


class Controller:
    """Caches of everything that the scheduler reads. What it remembers from pass to pass, it also
    finds again after a restart."""

    def __init__(self, client: Client, wake: asyncio.Event, clock: Callable[[], float]) -> None:
        self.wake = wake
        self.runtimes = RuntimeClient(lambda: self._root_key, wake.set)
        self._client = client
        self._clock = clock
        self._objects: dict[str, Cache[Any]] = {
            name: Cache(client, kind, cls, changed=wake.set) for name, (kind, cls) in KINDS.items()
        }
        self._policies = Cache(client, POLICIES, ClusterPolicy, changed=wake.set)
        self._applier = Applier(client, self.runtimes, clock)
        self._root_key: bytes | None = None
        self._last_why: tuple[str, ...] = ()

    @property
    def caches(self) -> list[Cache[Any]]:
        return [*self._objects.values(), self._policies]

    @property
    def policy(self) -> ClusterPolicy | None:
        return self._policies.get(("", names.POLICY_NAME))

    async def reconcile(self) -> float:
        """One pass. Returns the seconds until the next one if nothing changes before."""
        if self._root_key is None:
            self._root_key = await self._read_root_key()
        if self.policy is None:
            return QUIET_INTERVAL_S
        current = snapshot.take(self.observe())
        decision = plan(current, self.policy.spec, self._clock())
        self._log_why(decision)
        await self._applier.apply(decision.actions)
        self.runtimes.follow(_endpoints(current))
        is_busy = bool(decision.actions) or any(cession.open for cession in current.cessions)
        return BUSY_INTERVAL_S if is_busy else QUIET_INTERVAL_S

    def observe(self) -> RawObjects:
        """What the caches and the runtimes show now."""
        objects: dict[str, Any] = {name: cache.all() for name, cache in self._objects.items()}
        objects["cessions"] = self._applier.latest(objects["cessions"])
        return RawObjects(**objects, statuses=self.runtimes.statuses())

    async def poll_runtimes(self) -> None:
        """Afterwards every runtime has answered once, or failed to."""
        self._root_key = self._root_key or await self._read_root_key()
        self.runtimes.follow(_endpoints(snapshot.take(self.observe())))
        await self.runtimes.poll_all()

    def _log_why(self, decision: Plan) -> None:
        if decision.why != self._last_why:
            self._last_why = decision.why
            for why in decision.why:
                log.info("planned", extra={"why": why})

    async def _read_root_key(self) -> bytes | None:
        secret: Json = {}
        with suppress(NotFound):
            secret = await self._client.get(
                SECRETS, dict, (names.SYSTEM_NAMESPACE, names.ROOT_SECRET)
            )
        key = base64.b64decode((secret.get("data") or {}).get(names.SECRET_KEY, ""))
        if not key:
            log.warning(
                "no root key yet", extra={"secret": names.ROOT_SECRET, "entry": names.SECRET_KEY}
            )
        return key or None


def _endpoints(current: Snapshot) -> Iterable[Endpoint]:
    """The runtimes of all elastic jobs."""
    targets = {
        target.uid
        for cession in current.cessions
        if cession.open
        for target in cession.spec.targets
    }
    return [
        Endpoint(
            job=job.job,
            uid=job.job_uid,
            address=job.address,
            is_changing=job.job_uid in targets or _is_resizing(job),
        )
        for job in current.admitted
        if job.allowed_sizes and job.job_uid
    ]


def _is_resizing(job: AdmittedWorkload) -> bool:
    """Whether the runtime has not reached the size of its Job yet."""
    return job.runtime is not None and (
        job.runtime.state != State.TRAINING or job.runtime.size != job.parallelism
    )
