"""Performs the actions of a plan: the only writes of the scheduler."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from prometheus_client import Counter

from cede.api import names
from cede.api.cession import Cession
from cede.api.objects import (
    CESSIONS,
    CLUSTER_QUEUES,
    JOBS,
    PODS,
    WORKLOADS,
    Json,
    Key,
    Kind,
    rfc3339,
)
from cede.api.reasons import SchedulerEvent
from cede.kube import events
from cede.kube.client import Client
from cede.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from cede.kube.gather import gather_bounded
from elastic_runtime.contract import SizeRequest
from scheduler import guard_writes
from scheduler.action_stages import object_of, stages
from scheduler.actions import (
    Action,
    AmendCession,
    CreateGuard,
    DeleteCession,
    DeleteGuard,
    JoinGuard,
    OpenCession,
    RecordEvent,
    RecordWorkloadEvent,
    RequestSize,
    RequeueWorkload,
    ResizeJob,
    SetPrivateQuota,
    SetQueueingStrategy,
    SetWorkloadActive,
    UpdateCession,
)
from scheduler.finish_actions import ReportFinish
from scheduler.runtime_client import Endpoint, RuntimeClient
from scheduler.save_actions import AnswerSave, RequestSave
from scheduler.server_actions import DrainPod, ScaleServer
from scheduler.snapshot.snapshot import RawObjects
from scheduler.snapshot.workloads import ServerId
from scheduler.write_versions import Versions
from scheduler.written_cessions import WrittenCessions

log = logging.getLogger("scheduler")
ACTIONS = Counter(
    "cede_scheduler_actions_total",
    "Actions by kind and result: performed, queued, outdated, refused. GrowJob: a ResizeJob by "
    "which a running job gets more pods.",
    ["action", "result"],
)
QUEUED = (RequestSize, ReportFinish, RequestSave, RecordEvent, RecordWorkloadEvent)
"""Actions that end beside the pass."""
NOTHING = RawObjects()
MAX_WRITES = 32
"""At once: 300 jobs of one burst shrink in 10 rounds of requests."""


class Applier:
    """Performs actions, and knows the Cessions that it wrote until the cache has them."""

    def __init__(self, client: Client, runtimes: RuntimeClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._runtimes = runtimes
        self._clock = clock
        self._cessions = WrittenCessions()
        # of the present call of `apply`
        self._versions = Versions(NOTHING)
        self._performed = 0
        self._refusals: list[tuple[Action, ApiError]] = []
        # servers of which a pod could not be marked
        self._unmarked = set[ServerId]()
        self._events: list[Callable[[], Awaitable[None]]] = []

    async def apply(self, actions: Iterable[Action], planned_on: RawObjects = NOTHING) -> None:
        """Perform the actions, stage by stage. An action whose object has changed since it was
        planned is skipped: the next pass sees the object as it is then. An action that is refused
        costs only itself, also if that happens in every pass. Raises ApiError if the server
        answers nobody, and if it seems that we have lost our rights (`_is_barred`).
        """
        self._versions = Versions(planned_on)
        self._performed = 0
        self._refusals = []
        self._unmarked = set()
        self._events = []
        try:
            for chains in stages(actions):
                await gather_bounded(map(self._perform_chain, chains), MAX_WRITES)
        finally:
            # no action waits for an event
            await gather_bounded((record() for record in self._events), MAX_WRITES)
        if self._is_barred():
            raise self._refusals[0][1]

    def _is_barred(self) -> bool:
        """Nothing was performed, and two objects were refused, or a new Cession, without which
        nobody is preempted for."""
        objects = {object_of(action) for action, _ in self._refusals}
        is_opening = any(isinstance(action, OpenCession) for action, _ in self._refusals)
        return not self._performed and (is_opening or len(objects) > 1)

    async def _perform_chain(self, chain: Iterable[Action]) -> None:
        for action in chain:
            if isinstance(action, UpdateCession) and not self._cessions.would_change(
                action.status, self._versions.cession(action.name), self._clock()
            ):
                continue
            if isinstance(action, ScaleServer) and action.server in self._unmarked:
                # Kubernetes would delete another pod than the one that was chosen
                continue
            kind = type(action).__name__
            log.info("action", extra={"action": kind} | action.log_fields)
            result = await self._try(action)
            if isinstance(action, DrainPod) and result != "performed":
                self._unmarked.add(action.server)
            grows = isinstance(action, ResizeJob) and action.grows
            ACTIONS.labels("GrowJob" if grows else kind, result).inc()

    async def _try(self, action: Action) -> str:
        """How it ended: `performed`, `queued`, `outdated` or `refused`."""
        facts = {"action": type(action).__name__} | action.log_fields
        try:
            await self._perform(action)
        except (NotFound, Conflict, AlreadyExists) as error:
            log.info("action outdated", extra=facts | {"reason": str(error)})
            if isinstance(error, NotFound) and isinstance(action, UpdateCession | AmendCession):
                self._cessions.forget(action.name)
            return "outdated"
        except (TooManyRequests, Unauthorized, Unreachable):
            raise
        except ApiError as error:
            log.warning("action refused", extra=facts | {"reason": str(error)})
            is_our_fault = isinstance(error, Invalid) and not error.is_denied
            if not is_our_fault and (isinstance(action, OpenCession) or not error.concerns_object):
                self._refusals.append((action, error))
            return "refused"
        if isinstance(action, QUEUED):
            return "queued"
        if not isinstance(action, DrainPod) or action.needs_mark:
            self._performed += 1
        return "performed"

    def latest(self, cached: Iterable[Cession]) -> list[Cession]:
        """The cached Cessions, replaced by our own write where that is newer."""
        return self._cessions.latest(cached)

    async def _perform(self, action: Action) -> None:
        match action:
            case OpenCession():
                await self._open(action.cession)
            case UpdateCession():
                # a late write of an earlier leader must not replace what its successor recorded
                metadata = self._versions.of_cession(action.name)
                body: Json = {"metadata": metadata, "status": action.status.model_dump()}
                kept = await self._keep(
                    self._client.patch(CESSIONS, ("", action.name), body, subresource="status")
                )
                now = self._clock()
                if dropped := self._cessions.compare(action.status, kept.status, now):
                    facts = {"dropped": dropped, "cure": "apply deploy/crds of this version"}
                    log.warning("the CRD of Cessions is too old", extra=facts)
            case AmendCession():
                metadata = {"resourceVersion": action.version}
                body = {"metadata": metadata, "spec": action.spec.model_dump()}
                await self._keep(self._client.patch(CESSIONS, ("", action.name), body))
            case DeleteCession():
                # it ended long ago, so the cache has what we wrote
                self._cessions.forget(action.name)
                await self._client.delete(CESSIONS, ("", action.name), uid=action.uid)
            case SetQueueingStrategy():
                metadata = {"resourceVersion": action.version}
                body = {"metadata": metadata, "spec": {"queueingStrategy": action.strategy}}
                await self._client.patch(CLUSTER_QUEUES, ("", action.queue), body)
            case RequestSize():
                self._runtimes.request_size(
                    Endpoint(action.job, action.job_uid, action.addresses, base=action.base),
                    SizeRequest(action.size, action.cession, action.deadline_s),
                )
            case ReportFinish():
                self._runtimes.report_finish(
                    Endpoint(action.job, action.job_uid, action.addresses, base=action.base)
                )
            case RequestSave():
                self._runtimes.request_save(
                    Endpoint(action.job, action.job_uid, action.addresses, base=action.base),
                    action.attempt,
                )
            case AnswerSave():
                await self._client.patch(JOBS, action.job, action.patch)
                if action.event:
                    self._record(JOBS, action.job, action.job_uid, *action.event)
            case ResizeJob():
                await self._resize(action)
            case DrainPod():
                if action.needs_mark:
                    await self._client.patch(PODS, action.job, action.patch)
            case ScaleServer():
                await self._scale(action)
            case SetWorkloadActive():
                # one write, so that a stopped Workload always shows who lets it run again
                metadata = self._versions.of_workload(action.workload, action.uid)
                metadata["labels"] = {names.STOPPED_FOR: action.cession or None}
                spec = {"active": action.active}
                await self._client.patch(
                    WORKLOADS, action.workload, {"metadata": metadata, "spec": spec}
                )
            case RequeueWorkload():
                template = {"metadata": {"annotations": {names.REQUEUED_AT: action.since}}}
                body = {
                    "metadata": self._versions.of_workload(action.workload, action.uid),
                    "spec": {"podSets": [{"name": action.pod_set, "template": template}]},
                }
                # a merge patch would replace the whole list; the rest of it stays Kueue's
                await self._client.apply(WORKLOADS, action.workload, body)
            case CreateGuard() | JoinGuard() | DeleteGuard() | SetPrivateQuota():
                await guard_writes.perform(self._client, action)
            case RecordEvent():
                self._record(JOBS, action.job, action.job_uid, action.reason, action.note)
            case RecordWorkloadEvent():
                key, uid = action.workload, action.workload_uid
                self._record(WORKLOADS, key, uid, action.reason, action.note)

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
        key = (preemptor.namespace, preemptor.workload)
        reason = SchedulerEvent.CESSION_OPENED
        self._record(WORKLOADS, key, preemptor.uid, reason, cession.spec.why)

    async def _keep(self, write: Awaitable[Json]) -> Cession:
        """As the server returns it."""
        cession = Cession.model_validate(await write)
        self._cessions.note(cession)
        self._versions.note(cession)
        return cession

    async def _resize(self, action: ResizeJob) -> None:
        metadata: dict[str, Any] = {"resourceVersion": action.version}
        if action.shrinks:
            metadata["annotations"] = {names.SHRUNK_AT: rfc3339(self._clock())}
        await self._client.patch(JOBS, action.job, {"metadata": metadata, "spec": action.spec})
        reason = SchedulerEvent.SHRUNK if action.shrinks else SchedulerEvent.RESIZED
        note = f"to {action.size} pods: {action.why}"
        self._record(JOBS, action.job, action.job_uid, reason, note)

    async def _scale(self, action: ScaleServer) -> None:
        kind, key = action.server
        await self._client.patch(kind, key, action.patch(self._clock()))
        reason = SchedulerEvent.SHRUNK if action.shrinks else SchedulerEvent.RESIZED
        note = f"to {action.replicas} replicas: {action.why}"
        self._record(kind, key, action.uid, reason, note)

    def _record(self, kind: Kind, key: Key, uid: str, reason: SchedulerEvent, note: str) -> None:
        regarding = events.reference(kind, key, uid)
        self._events.append(lambda: self._write_event(regarding, reason, note))

    async def _write_event(self, regarding: Json, reason: SchedulerEvent, note: str) -> None:
        """An event is written if it can be: no action depends on it."""
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
