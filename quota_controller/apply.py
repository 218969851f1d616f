"""Writes the objects that differ from the plan and deletes those that should not exist."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.objects import (
    ALLOCATIONS,
    NAMESPACES,
    SECRETS,
    Json,
    Key,
    Kind,
    version,
)
from cede.kube.client import Client
from cede.kube.errors import ApiError, Conflict, Forbidden, NotFound
from cede.kube.gather import gather_bounded
from quota_controller.desired.conflicts import Problem
from quota_controller.desired.desired_object import (
    SHARED,
    DesiredObject,
    LiveObjects,
    ObjectId,
    display_name,
    owner_of,
)
from quota_controller.desired.drift import describe_edits, foreign_edits, lowers_quota
from quota_controller.desired.plan import Plan, Snapshot
from quota_controller.write_problems import object_exists, write_problem

log = logging.getLogger("quota_controller")

WATCH_LAG_S = 5.0
"""A watch that has not shown one of our writes after this time never will: somebody deleted the
object since."""
TEAM_LABELS = (names.TEAM, names.ALLOCATION)
TEAM_ANNOTATIONS = (names.ACCELERATORS, names.CONTROLLERS, names.PRIORITY_CLASSES)
"""What a namespace loses that is no team's any more."""


class RevertedEdit(NamedTuple):
    """An edit by somebody else that was undone."""

    owner: str
    sentence: str


@dataclass
class _Batches:
    """The objects to write, in the order of writing."""

    lower_quota: list[DesiredObject]
    shared: list[DesiredObject]
    by_allocation: dict[str, list[DesiredObject]]


class Applier:
    """Writes to the cluster.

    From pass to pass it remembers its last writes, which the watches may not have shown yet, and
    the content that it applied last, which edits by others are compared with.
    """

    def __init__(
        self,
        client: Client,
        clock: Callable[[], float],
        on_write: Callable[[Kind, Key, Json], None],
    ) -> None:
        self.client = client
        self.clock = clock
        self.on_write = on_write
        # writes that the watches may not have shown yet, with the time of the write
        self.unseen_writes: dict[ObjectId, tuple[Json, float]] = {}
        self._last_applied: dict[ObjectId, Json] = {}
        # of the last pass
        self.reverted_edits: dict[ObjectId, RevertedEdit] = {}
        # of the last pass, by owner
        self.problems: dict[str, Problem] = {}

    def overlay(self, live: dict[ObjectId, Json], now: float) -> None:
        """Updates `live` with our last writes that the watches have not shown yet."""
        self.unseen_writes = {
            object_id: (body, written)
            for object_id, (body, written) in self.unseen_writes.items()
            if now - written < WATCH_LAG_S and version(body) > version(live.get(object_id))
        }
        for object_id, (body, _) in self.unseen_writes.items():
            live[object_id] = body

    async def apply(self, snapshot: Snapshot, plan: Plan) -> None:
        """Writes what differs and nothing else; sets `problems` and `reverted_edits`.

        Objects that lower a quota come first, so that the sum of all quotas never exceeds the
        capacity; then the shared objects; then the allocations concurrently.
        Raises ApiError when the API server does not work at all.
        """
        self.problems = {}
        self.reverted_edits = {}
        batches = self._batches(snapshot, plan)
        for batch in (batches.lower_quota, batches.shared):
            await gather_bounded(self._write_in_order([desired], snapshot) for desired in batch)
        await gather_bounded(
            self._write_allocation(
                allocation, batches.by_allocation.get(allocation.metadata.name, []), snapshot
            )
            for allocation in snapshot.allocations
        )
        await gather_bounded(
            self._delete(kind, key, uid, owner_of(snapshot.live[kind, key]))
            for kind, key, uid in plan.unwanted(snapshot.live)
            if not snapshot.live[kind, key]["metadata"].get("deletionTimestamp")
        )
        await gather_bounded(
            self._abandon(key, uid, owner_of(snapshot.live[NAMESPACES, key]))
            for key, uid in plan.abandoned_namespaces
        )
        await self._remove_finalizers(snapshot, plan)

    def _batches(self, snapshot: Snapshot, plan: Plan) -> _Batches:
        """The objects that differ. Forgets what was applied of objects that left the plan."""
        batches = _Batches([], [], {})
        last_applied = {}
        for desired in plan.objects:
            object_id = desired.object_id
            live = snapshot.live.get(object_id)
            if desired.matches(live):
                last_applied[object_id] = desired.content
                continue
            if object_id in self._last_applied:
                last_applied[object_id] = self._last_applied[object_id]
            if lowers_quota(live, desired.body):
                batches.lower_quota.append(desired)
            elif desired.owner == SHARED:
                batches.shared.append(desired)
            else:
                batches.by_allocation.setdefault(desired.owner, []).append(desired)
        self._last_applied = last_applied
        return batches

    async def _write_allocation(
        self, allocation: ComputeAllocation, objects: list[DesiredObject], snapshot: Snapshot
    ) -> None:
        await self._add_finalizer(allocation)
        await self._write_in_order(objects, snapshot)

    async def _write_in_order(self, objects: Iterable[DesiredObject], snapshot: Snapshot) -> None:
        """Writes up to the first problem of an allocation; shared objects are all written."""
        for desired in objects:
            if desired.owner in self.problems and desired.owner != SHARED:
                return
            problem = await self._write(desired, snapshot)
            if problem:
                self._note(desired.owner, problem)

    def _note(self, owner: str, problem: Problem) -> None:
        self.problems[owner] = problem
        extra = {"owner": owner, "reason": problem.reason, "why": problem.message}
        log.warning("object not written", extra=extra)

    @contextmanager
    def _reporting(self, owner: str, what: str) -> Iterator[None]:
        """A write that is refused is a problem of its owner, and ends nothing else. If the object
        has changed meanwhile, the next pass decides again."""
        try:
            yield
        except ApiError as error:
            if error.is_denied or not isinstance(error, NotFound | Conflict):
                self._note(owner, write_problem(what, error))

    async def _write(self, desired: DesiredObject, snapshot: Snapshot) -> Problem | None:
        """Applies the object, unless one exists that is not ours. Returns why it is not written."""
        live = snapshot.live.get(desired.object_id)
        last_applied = self._last_applied.pop(desired.object_id, None)
        try:
            # an object without our label is not in the snapshot
            if live is None and not _is_in_new_namespace(desired, snapshot.live):
                live = await self._get(desired)
            # the plan has decided on namespaces already
            if live is not None and desired.kind != NAMESPACES and not _is_ours(live):
                return object_exists(desired)
            key = "/".join(desired.key)
            extra = {"kind": desired.kind.kind, "key": key, "owner": desired.owner}
            log.info("apply", extra=extra)
            body = await self.client.apply(desired.kind, desired.key, desired.body)
        except ApiError as error:
            return write_problem(desired.display_name, error)
        self.on_write(desired.kind, desired.key, body)
        # as we have just written it, nobody else has changed it: its authors only take memory
        body["metadata"].pop("managedFields", None)
        self.unseen_writes[desired.object_id] = (body, self.clock())
        self._last_applied[desired.object_id] = desired.content
        self._record_edit(desired, live, last_applied)
        return None

    def _record_edit(
        self, desired: DesiredObject, live: Json | None, last_applied: Json | None
    ) -> None:
        """Notes what somebody else had changed in the object before this write."""
        what = ""
        if live is None:
            if last_applied:
                what = "deleted, and is created again"
        else:
            manager = names.QUOTA_CONTROLLER
            edits = foreign_edits(live, desired.content, last_applied, manager=manager)
            if edits:
                secret = desired.kind == SECRETS
                what = describe_edits(live, edits, manager=manager, secret=secret)
        if what:
            sentence = f"{desired.display_name} was {what}"
            self.reverted_edits[desired.object_id] = RevertedEdit(desired.owner, sentence)

    async def _get(self, desired: DesiredObject) -> Json | None:
        try:
            return await self.client.get(desired.kind, dict, desired.key)
        except NotFound:
            return None

    async def _add_finalizer(self, allocation: ComputeAllocation) -> None:
        """Makes sure that the allocation has our finalizer before any object is made for it."""
        meta = allocation.metadata
        if meta.deletionTimestamp or names.ALLOCATION_FINALIZER in meta.finalizers:
            return
        finalizers = [*meta.finalizers, names.ALLOCATION_FINALIZER]
        patch = {"metadata": {"finalizers": finalizers, "resourceVersion": meta.resourceVersion}}
        with self._reporting(meta.name, f"the finalizer of {display_name(ALLOCATIONS, meta.key)}"):
            body = await self.client.patch(ALLOCATIONS, meta.key, patch)
            self.on_write(ALLOCATIONS, meta.key, body)

    async def _delete(self, kind: Kind, key: Key, uid: str, owner: str) -> None:
        log.info("delete", extra={"kind": kind.kind, "key": "/".join(key)})
        what = f"the deletion of {display_name(kind, key)}"
        with self._reporting(owner, what):
            try:
                await self.client.delete(kind, key, uid=uid)
            except Forbidden as error:
                # without the right: somebody has copied our labels to an object with a name that
                # is not ours
                if error.concerns_object:
                    raise
        self.unseen_writes.pop((kind, key), None)

    async def _abandon(self, key: Key, uid: str, owner: str) -> None:
        """Removes what is ours from a namespace, except `cede.dev/created-for`: that Cede created
        the namespace, and for which allocation."""
        log.info("abandon namespace", extra={"namespace": key[1]})
        metadata: Json = {
            "uid": uid,
            "labels": dict.fromkeys(TEAM_LABELS),
            "annotations": dict.fromkeys(TEAM_ANNOTATIONS),
        }
        what = f"the removal of Cede's labels from {display_name(NAMESPACES, key)}"
        with self._reporting(owner, what):
            await self.client.patch(NAMESPACES, key, {"metadata": metadata})

    async def _remove_finalizers(self, snapshot: Snapshot, plan: Plan) -> None:
        """Lets the allocations go of which no object is left."""
        owners = {owner_of(obj) for obj in snapshot.live.values()}
        for allocation in snapshot.allocations:
            meta = allocation.metadata
            is_drained = meta.name in plan.drained and meta.name not in owners
            if not is_drained or names.ALLOCATION_FINALIZER not in meta.finalizers:
                continue
            path = f"/metadata/finalizers/{meta.finalizers.index(names.ALLOCATION_FINALIZER)}"
            patch: list[Json] = [
                {"op": "test", "path": path, "value": names.ALLOCATION_FINALIZER},
                {"op": "remove", "path": path},
            ]
            what = f"the removal of the finalizer of {display_name(ALLOCATIONS, meta.key)}"
            with self._reporting(meta.name, what):
                await self.client.patch(ALLOCATIONS, meta.key, patch)


def _is_ours(live: Json) -> bool:
    """Whether the object has our label, or we are among its field managers."""
    managers = {entry.get("manager") for entry in live["metadata"].get("managedFields") or []}
    return bool(owner_of(live)) or names.QUOTA_CONTROLLER in managers


def _is_in_new_namespace(desired: DesiredObject, live: LiveObjects) -> bool:
    """Whether the object is, or is in, a namespace that does not exist. All namespaces are live."""
    namespace = desired.key[1] if desired.kind == NAMESPACES else desired.key[0]
    return bool(namespace) and (NAMESPACES, ("", namespace)) not in live
