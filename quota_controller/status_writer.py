"""Writes the statuses that differ, and events for what is new in them and for reverted edits."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.allocation_status import AllocationStatus
from cede.api.objects import ALLOCATIONS, POLICIES, Json, Key, Kind, condition, version
from cede.api.policy import ClusterPolicy, PolicyStatus
from cede.api.reasons import EventReason
from cede.kube import events
from cede.kube.client import Client
from cede.kube.errors import ApiError, Conflict, NotFound
from cede.kube.gather import gather_bounded
from quota_controller import metrics
from quota_controller.apply import RevertedEdit
from quota_controller.desired.conflicts import Problem, Problems
from quota_controller.desired.desired_object import SHARED, ObjectId, display_name
from quota_controller.desired.plan import Plan, Snapshot
from quota_controller.status import policy as policy_conditions
from quota_controller.status.allocation import allocation_status
from quota_controller.status.policy import policy_status, unsynced_policy_status
from quota_controller.write_problems import write_problem

S = TypeVar("S")

log = logging.getLogger("quota_controller")

EDIT_EVENT_INTERVAL_S = 60.0
"""An object that is edited again and again has at most one event in this time."""


class StatusWriter:
    """Writes statuses and events.

    It remembers the versions of the statuses it wrote, which the watches may not have shown yet.
    After a report, `has_waiting` is whether a status waits until they have, and `problems` are why
    others are not written, by the name of the object.
    """

    def __init__(self, client: Client, on_write: Callable[[Kind, Key, Json], None]) -> None:
        self.client = client
        self.on_write = on_write
        self.has_waiting = False
        self.problems: dict[str, Problem] = {}
        self._written_versions: dict[ObjectId, int] = {}
        # when the last event about an edit of this object was written
        self._edit_event_times: dict[ObjectId, float] = {}

    async def report(
        self,
        snapshot: Snapshot,
        plan: Plan,
        write_problems: Problems,
        reverted_edits: Mapping[ObjectId, RevertedEdit],
        now: float,
    ) -> None:
        """Every status is as the plan says, and every reverted edit has an event at its owner."""
        self.has_waiting = False
        self.problems = {}
        metrics.show(snapshot, plan)
        picture = (plan, snapshot, write_problems, now)
        statuses = (
            (a, _built(a.metadata.name, partial(allocation_status, a, *picture)))
            for a in snapshot.allocations
        )
        await gather_bounded(
            self._write(ALLOCATIONS, allocation, status, now) for allocation, status in statuses
        )
        status = _built(names.POLICY_NAME, partial(policy_status, *picture))
        kueue = condition(status.conditions, policy_conditions.KUEUE_CONFIGURED) if status else None
        metrics.KUEUE_CONFIGURED.set(kueue is None or kueue["status"] != "False")
        if snapshot.policy and status:
            await self._write(POLICIES, snapshot.policy, status, now)
        await self._report_edits(snapshot, reverted_edits, now)

    async def report_unsynced(
        self, policy: ClusterPolicy, read_errors: Mapping[str, str], now: float
    ) -> None:
        """The policy's status names the kinds that cannot be read; no other status changes."""
        await self._write(POLICIES, policy, unsynced_policy_status(policy, read_errors, now), now)

    async def _write(
        self,
        kind: Kind,
        obj: ComputeAllocation | ClusterPolicy,
        status: AllocationStatus | PolicyStatus | None,
        now: float,
    ) -> None:
        """Writes a status that differs, and an event if condition Ready has changed."""
        meta = obj.metadata
        written_version = self._written_versions.get((kind, meta.key), 0)
        if status is None or status == obj.status:
            return
        if written_version > int(meta.resourceVersion or 0):
            self.has_waiting = True
            return
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": meta.name},
            "status": without_empty_maps(status.model_dump()),
        }
        try:
            written = await self.client.apply(kind, meta.key, body, subresource="status")
        except ApiError as error:
            if isinstance(error, NotFound | Conflict) and not error.is_denied:
                # the next pass decides about the object as it is then
                return
            # it must not keep the other statuses from being written
            name = display_name(kind, meta.key)
            problem = write_problem(f"the status of {name}", error)
            log.error("status not written", extra={"why": problem.message})
            self.problems[name] = problem
            return
        self._written_versions[kind, meta.key] = version(written)
        self.on_write(kind, meta.key, written)
        await self._report_ready(kind, obj, status, now)
        await self._report_budget(kind, obj, status, now)

    async def _report_budget(
        self,
        kind: Kind,
        obj: ComputeAllocation | ClusterPolicy,
        status: AllocationStatus | PolicyStatus,
        now: float,
    ) -> None:
        """An event when a budget is used, or may be borrowed on again; not for every hour."""
        before = condition(obj.status.conditions, names.WITHIN_BUDGET)
        budget = condition(status.conditions, names.WITHIN_BUDGET)
        if budget is None or (before or {}).get("reason") == budget["reason"]:
            return
        warning = budget["status"] == "False"
        if before or warning:
            await self._event(kind, obj, budget["reason"], budget["message"], now, warning=warning)

    async def _report_ready(
        self,
        kind: Kind,
        obj: ComputeAllocation | ClusterPolicy,
        status: AllocationStatus | PolicyStatus,
        now: float,
    ) -> None:
        before = condition(obj.status.conditions, names.READY) or {}
        ready = condition(status.conditions, names.READY)
        if ready is None or ready["status"] == "Unknown":
            return
        if all(before.get(field) == ready[field] for field in ("reason", "message")):
            return
        log.info(
            "ready",
            extra={
                "kind": kind.kind,
                "object": obj.metadata.name,
                "ready": ready["status"],
                "why": ready["message"],
            },
        )
        warning = ready["status"] == "False"
        await self._event(kind, obj, ready["reason"], ready["message"], now, warning=warning)

    async def _report_edits(
        self, snapshot: Snapshot, reverted_edits: Mapping[ObjectId, RevertedEdit], now: float
    ) -> None:
        self._edit_event_times = {
            object_id: time
            for object_id, time in self._edit_event_times.items()
            if now - time < EDIT_EVENT_INTERVAL_S
        }
        owners: dict[str, tuple[Kind, ComputeAllocation | ClusterPolicy]] = {
            allocation.metadata.name: (ALLOCATIONS, allocation)
            for allocation in snapshot.allocations
        }
        if snapshot.policy:
            owners[SHARED] = (POLICIES, snapshot.policy)
        for object_id, edit in reverted_edits.items():
            log.warning("edit reverted", extra={"owner": edit.owner, "why": edit.sentence})
            if object_id in self._edit_event_times or edit.owner not in owners:
                continue
            self._edit_event_times[object_id] = now
            kind, owner = owners[edit.owner]
            reason = EventReason.EDIT_REVERTED
            await self._event(kind, owner, reason, edit.sentence, now, warning=True)

    async def _event(
        self,
        kind: Kind,
        obj: ComputeAllocation | ClusterPolicy,
        reason: str,
        note: str,
        now: float,
        *,
        warning: bool,
    ) -> None:
        regarding = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": obj.metadata.name,
            "uid": obj.metadata.uid,
        }
        # an event that cannot be written changes nothing else
        with suppress(ApiError):
            await events.record(
                self.client,
                manager=names.QUOTA_CONTROLLER,
                regarding=regarding,
                reason=str(reason),
                note=note,
                now=now,
                type_="Warning" if warning else "Normal",
            )


def _built(name: str, build: Callable[[], S]) -> S | None:
    """The status of the object of this name; None if it cannot be built."""
    try:
        return build()
    except Exception:
        # a fault of ours, which must not keep the other statuses from being written
        log.exception("status not built", extra={"object": name})
        return None


def without_empty_maps(value: Any) -> Any:
    """The value without empty maps, at any depth.

    If an empty map is applied in place of one that we filled, the API server stores `null`, and
    then rejects it.
    """
    if isinstance(value, dict):
        return {key: without_empty_maps(item) for key, item in value.items() if item != {}}
    if isinstance(value, list):
        return [without_empty_maps(item) for item in value]
    return value
