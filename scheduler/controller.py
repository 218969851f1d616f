"""Look, decide, act. The only writes of the scheduler."""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from prometheus_client import Counter

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.kueue import ClusterQueue, Cohort, Job, LocalQueue, Node, Pod, Workload
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
    SECRETS,
    WORKLOADS,
    Json,
    rfc3339,
)
from cede.api.policy import ClusterPolicy
from cede.api.reasons import SchedulerEvent
from cede.kube import events
from cede.kube.cache import Cache
from cede.kube.client import Client
from cede.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from elastic_runtime.contract import SizeRequest, State
from scheduler import snapshot
from scheduler.actions import Act, Activate, Ask, Forget, Open, Queueing, Record, Resize, Tell
from scheduler.plan import Plan, plan
from scheduler.runtime_client import Runtimes, Target
from scheduler.snapshot import Objects, Running, Snapshot

log = logging.getLogger("scheduler")
ACTS = Counter("cede_scheduler_acts_total", "What was done, by kind.", ["act"])
# until the next pass when nothing wakes us: while a Cession is open, and else
BUSY_S = 0.5
QUIET_S = 5.0


class Controller:
    """Caches of all it reads. From pass to pass it remembers nothing that a restart would lose."""

    def __init__(self, client: Client, wake: asyncio.Event, clock: Callable[[], float]) -> None:
        self.client = client
        self.wake = wake
        self.clock = clock

        def cache(kind: Any, cls: Any) -> Any:
            return Cache(client, kind, cls, changed=wake.set)

        self.workloads: Cache[Workload] = cache(WORKLOADS, Workload)
        self.jobs: Cache[Job] = cache(JOBS, Job)
        self.pods: Cache[Pod] = cache(PODS, Pod)
        self.nodes: Cache[Node] = cache(NODES, Node)
        self.cluster_queues: Cache[ClusterQueue] = cache(CLUSTER_QUEUES, ClusterQueue)
        self.local_queues: Cache[LocalQueue] = cache(LOCAL_QUEUES, LocalQueue)
        self.cohorts: Cache[Cohort] = cache(COHORTS, Cohort)
        self.allocations: Cache[ComputeAllocation] = cache(ALLOCATIONS, ComputeAllocation)
        self.policies: Cache[ClusterPolicy] = cache(POLICIES, ClusterPolicy)
        self.cessions: Cache[Cession] = cache(CESSIONS, Cession)
        self.caches: list[Cache[Any]] = [
            self.workloads,
            self.jobs,
            self.pods,
            self.nodes,
            self.cluster_queues,
            self.local_queues,
            self.cohorts,
            self.allocations,
            self.policies,
            self.cessions,
        ]
        self.runtimes = Runtimes(lambda: self._root, wake.set)
        # what we wrote ourselves and the cache has not heard of yet
        self._written: dict[str, Cession] = {}
        self._root: bytes | None = None
        self._said: tuple[str, ...] = ()

    async def reconcile(self) -> float:
        """One pass: look, decide, act. Returns the seconds we may sleep if nothing changes."""
        if self._root is None:
            self._root = await self._read_root()
        policy = self.policies.get(("", names.POLICY_NAME))
        if policy is None:
            return QUIET_S
        seen = snapshot.take(self.look())
        decided = plan(seen, policy.spec, self.clock())
        self._explain(decided)
        for act in decided.acts:
            try:
                await self._perform(act)
                ACTS.labels(type(act).__name__).inc()
            except (NotFound, Conflict, AlreadyExists) as moved_on:
                # the next pass sees it as it is
                log.info("moved on", extra={"act": type(act).__name__, "reason": str(moved_on)})
            except (Invalid, Forbidden) as refused:
                if not isinstance(act, Resize):
                    raise
                # one job's fault; at the deadline it is stopped
                log.warning("resize refused", extra=facts(act) | {"reason": str(refused)})
        self.runtimes.follow(self._targets(seen))
        return BUSY_S if any(c.open for c in seen.cessions) or decided.acts else QUIET_S

    def look(self) -> Objects:
        return Objects(
            workloads=self.workloads.all(),
            jobs=self.jobs.all(),
            pods=self.pods.all(),
            nodes=self.nodes.all(),
            cluster_queues=self.cluster_queues.all(),
            local_queues=self.local_queues.all(),
            cohorts=self.cohorts.all(),
            allocations=self.allocations.all(),
            cessions=self._cessions(),
            statuses=self.runtimes.statuses(),
        )

    async def listen(self) -> None:
        """Hears every runtime once, or finds it silent."""
        self._root = self._root or await self._read_root()
        self.runtimes.follow(self._targets(snapshot.take(self.look())))
        await self.runtimes.hear()

    def _cessions(self) -> list[Cession]:
        """As the cache has them, but where we have written since: the record would lose what it
        just noted."""
        cached = {c.metadata.name: c for c in self.cessions.all()}
        for name, ours in list(self._written.items()):
            theirs = cached.get(name)
            # comparable since Kubernetes 1.35
            if theirs and int(theirs.metadata.resourceVersion) >= int(
                ours.metadata.resourceVersion
            ):
                del self._written[name]
            else:
                cached[name] = ours
        return list(cached.values())

    def _targets(self, seen: Snapshot) -> list[Target]:
        giving = {v.uid for c in seen.cessions if c.open for v in c.spec.targets}
        return [
            Target(r.job, r.job_uid, r.address, r.job_uid in giving or _is_resizing(r))
            for r in seen.running
            if r.allowed and r.job_uid
        ]

    def _explain(self, decided: Plan) -> None:
        if decided.why != self._said:
            self._said = decided.why
            for why in decided.why:
                log.info("planned", extra={"why": why})

    async def _read_root(self) -> bytes | None:
        secret: Json = {}
        with suppress(NotFound):
            secret = await self.client.get(
                SECRETS, dict, (names.SYSTEM_NAMESPACE, names.ROOT_SECRET)
            )
        if not (key := base64.b64decode((secret.get("data") or {}).get(names.SECRET_KEY, ""))):
            log.warning(
                "no root key yet", extra={"secret": names.ROOT_SECRET, "entry": names.SECRET_KEY}
            )
        return key or None

    async def _perform(self, act: Act) -> None:
        log.info("act", extra={"act": type(act).__name__} | facts(act))
        match act:
            case Open():
                await self._open(act.cession)
            case Record():
                body = {"status": act.status.model_dump()}
                await self._keep(
                    self.client.patch(CESSIONS, ("", act.name), body, subresource="status")
                )
            case Forget():
                await self.client.delete(CESSIONS, ("", act.name), uid=act.uid)
            case Queueing():
                spec = {
                    "spec": {"queueingStrategy": act.strategy},
                    "metadata": {"resourceVersion": act.version},
                }
                await self.client.patch(CLUSTER_QUEUES, ("", act.queue), spec)
            case Ask():
                self.runtimes.ask(
                    act.job,
                    act.job_uid,
                    act.address,
                    SizeRequest(act.size, act.cession, act.deadline_s),
                )
            case Resize():
                await self._resize(act)
            case Activate():
                await self.client.patch(WORKLOADS, act.workload, {"spec": {"active": act.active}})
            case Tell():
                await self._event(act.job, act.job_uid, act.reason, act.note)

    async def _open(self, cession: Cession) -> None:
        """The record first: whoever leads next goes on from it. Then at once what it asks for."""
        metadata = {
            "name": cession.metadata.name,
            "labels": {names.MANAGED_BY: names.MANAGED_BY_CEDE},
        }
        await self._keep(
            self.client.create(CESSIONS, {"metadata": metadata, "spec": cession.spec.model_dump()})
        )
        by = cession.spec.preemptor
        claimant = {
            "apiVersion": WORKLOADS.api_version,
            "kind": "Workload",
            "name": by.workload,
            "namespace": by.namespace,
            "uid": by.uid,
        }
        await self._note(claimant, SchedulerEvent.CESSION_OPENED, cession.spec.why)

    async def _keep(self, written: Awaitable[Json]) -> None:
        found = Cession.model_validate(await written)
        self._written[found.metadata.name] = found

    async def _resize(self, act: Resize) -> None:
        """Both numbers in one patch: parallelism alone may keep the wrong ranks (kueue-verified
        A4)."""
        metadata: Json = {"resourceVersion": act.version}
        if act.shrunk:
            metadata["annotations"] = {names.SHRUNK_AT: rfc3339(self.clock())}
        await self.client.patch(
            JOBS,
            act.job,
            {"metadata": metadata, "spec": {"parallelism": act.size, "completions": act.size}},
        )
        await self._event(
            act.job,
            act.job_uid,
            SchedulerEvent.SHRUNK if act.shrunk else SchedulerEvent.RESIZED,
            f"to {act.size} pods: {act.why}",
        )

    async def _event(self, job: tuple[str, str], uid: str, reason: str, note: str) -> None:
        regarding = {
            "apiVersion": JOBS.api_version,
            "kind": "Job",
            "namespace": job[0],
            "name": job[1],
            "uid": uid,
        }
        await self._note(regarding, reason, note)

    async def _note(self, regarding: Json, reason: str, note: str) -> None:
        """An event where it can be written: nothing waits for it."""
        try:
            await events.record(
                self.client,
                manager=names.SCHEDULER,
                regarding=regarding,
                reason=reason,
                note=note,
                now=self.clock(),
            )
        except ApiError as error:
            log.warning("event not written", extra={"event": reason, "reason": str(error)})


def _is_resizing(job: Running) -> bool:
    """Whether its runtime will soon have news: it has not yet the size its Job has."""
    return job.status is not None and (
        job.status.state != State.TRAINING or job.status.size != job.parallelism
    )


def facts(act: Act) -> dict[str, object]:
    match act:
        case Open():
            return {"cession": act.cession.metadata.name, "why": act.cession.spec.why}
        case Record():
            return {"cession": act.name, "phase": act.status.phase}
        case Resize() | Ask():
            return {"job": "/".join(act.job), "size": act.size}
        case Queueing():
            return {"queue": act.queue, "strategy": act.strategy}
        case Activate():
            return {"workload": "/".join(act.workload), "active": act.active}
        case _:
            return {}
