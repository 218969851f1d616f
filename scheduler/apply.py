"""Performs the actions of a plan: the only writes of the scheduler."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from prometheus_client import Counter

from cede.api import names
from cede.api.cession import Cession
from cede.api.objects import CESSIONS, CLUSTER_QUEUES, JOBS, WORKLOADS, Json, rfc3339
from cede.api.reasons import SchedulerEvent
from cede.kube import events
from cede.kube.client import Client
from cede.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from elastic_runtime.contract import SizeRequest
from scheduler.actions import (
    Action,
    DeleteCession,
    OpenCession,
    RecordEvent,
    RequestSize,
    ResizeJob,
    SetQueueingStrategy,
    SetWorkloadActive,
    UpdateCession,
)
from scheduler.runtime_client import Endpoint, RuntimeClient

log = logging.getLogger("scheduler")
ACTIONS = Counter("cede_scheduler_actions_total", "Actions performed, by kind.", ["action"])


class Applier:
    """Performs actions, and knows the Cessions that it wrote until the cache has them."""

    def __init__(self, client: Client, runtimes: RuntimeClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._runtimes = runtimes
        self._clock = clock
        self._written: dict[str, Cession] = {}

    async def apply(self, actions: Iterable[Action]) -> None:
        """Perform the actions in order. Those whose object has changed meanwhile are skipped: the
        next pass sees it as it is then. Raises ApiError for anything else."""
        for action in actions:
            kind = type(action).__name__
            log.info("action", extra={"action": kind} | action.log_fields)
            try:
                await self._perform(action)
                ACTIONS.labels(kind).inc()
            except (NotFound, Conflict, AlreadyExists) as error:
                log.info("action skipped", extra={"action": kind, "reason": str(error)})
            except (Invalid, Forbidden) as error:
                if not isinstance(action, ResizeJob):
                    raise
                # the fault of one job: it is stopped after the deadline
                log.warning("resize refused", extra=action.log_fields | {"reason": str(error)})

    def latest(self, cached: Iterable[Cession]) -> list[Cession]:
        """The cached Cessions, replaced by our own write where that is newer: otherwise the next
        status would lose what the last one recorded."""
        cessions = {cession.metadata.name: cession for cession in cached}
        for name, written in list(self._written.items()):
            if name in cessions and _version(cessions[name]) >= _version(written):
                del self._written[name]
            else:
                cessions[name] = written
        return list(cessions.values())

    async def _perform(self, action: Action) -> None:
        match action:
            case OpenCession():
                await self._open(action.cession)
            case UpdateCession():
                status = {"status": action.status.model_dump()}
                await self._keep(
                    self._client.patch(CESSIONS, ("", action.name), status, subresource="status")
                )
            case DeleteCession():
                await self._client.delete(CESSIONS, ("", action.name), uid=action.uid)
            case SetQueueingStrategy():
                body = {
                    "metadata": {"resourceVersion": action.version},
                    "spec": {"queueingStrategy": action.strategy},
                }
                await self._client.patch(CLUSTER_QUEUES, ("", action.queue), body)
            case RequestSize():
                self._runtimes.request_size(
                    Endpoint(action.job, action.job_uid, action.address),
                    SizeRequest(action.size, action.cession, action.deadline_s),
                )
            case ResizeJob():
                await self._resize(action)
            case SetWorkloadActive():
                # one write, so that a stopped Workload always shows who lets it run again
                metadata: Json = {"uid": action.uid}
                metadata["labels"] = {names.STOPPED_FOR: action.cession or None}
                spec = {"active": action.active}
                await self._client.patch(
                    WORKLOADS, action.workload, {"metadata": metadata, "spec": spec}
                )
            case RecordEvent():
                await self._record_on_job(action.job, action.job_uid, action.reason, action.note)

    async def _open(self, cession: Cession) -> None:
        """Create the record, then an event on the preemptor's Workload. All that the Cession asks
        for comes in later passes, so the next leader can continue from the record."""
        metadata = {
            "name": cession.metadata.name,
            "labels": {names.MANAGED_BY: names.MANAGED_BY_CEDE},
        }
        await self._keep(
            self._client.create(CESSIONS, {"metadata": metadata, "spec": cession.spec.model_dump()})
        )
        preemptor = cession.spec.preemptor
        workload = {
            "apiVersion": WORKLOADS.api_version,
            "kind": WORKLOADS.kind,
            "name": preemptor.workload,
            "namespace": preemptor.namespace,
            "uid": preemptor.uid,
        }
        await self._record(workload, SchedulerEvent.CESSION_OPENED, cession.spec.why)

    async def _keep(self, write: Awaitable[Json]) -> None:
        cession = Cession.model_validate(await write)
        self._written[cession.metadata.name] = cession

    async def _resize(self, action: ResizeJob) -> None:
        """Both numbers in one patch. The Job controller removes the pods with the highest indexes
        only where completions shrink too (Kubernetes KEP-3715, elastic Indexed Jobs)."""
        metadata: dict[str, Any] = {"resourceVersion": action.version}
        if action.shrinks:
            metadata["annotations"] = {names.SHRUNK_AT: rfc3339(self._clock())}
        spec = {"parallelism": action.size, "completions": action.size}
        await self._client.patch(JOBS, action.job, {"metadata": metadata, "spec": spec})
        reason = SchedulerEvent.SHRUNK if action.shrinks else SchedulerEvent.RESIZED
        note = f"to {action.size} pods: {action.why}"
        await self._record_on_job(action.job, action.job_uid, reason, note)

    async def _record_on_job(
        self, job: tuple[str, str], uid: str, reason: SchedulerEvent, note: str
    ) -> None:
        namespace, name = job
        regarding = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "namespace": namespace,
            "name": name,
            "uid": uid,
        }
        await self._record(regarding, reason, note)

    async def _record(self, regarding: Json, reason: SchedulerEvent, note: str) -> None:
        """An event is written if it can be: no other action depends on it."""
        try:
            await events.record(
                self._client,
                manager=names.SCHEDULER,
                regarding=regarding,
                reason=reason,
                note=note,
                now=self._clock(),
            )
        except ApiError as error:
            log.warning("event not written", extra={"event": reason, "reason": str(error)})


def _version(cession: Cession) -> int:
    """Comparable as a number since Kubernetes 1.35."""
    return int(cession.metadata.resourceVersion)
