"""Look, decide, act: what the plan says should exist exists, what it says should not goes, and the statuses say so."""

import asyncio
import base64
import logging
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.kueue import Lease, Node
from cede.api.objects import (
    ALLOCATIONS,
    CLUSTER_QUEUES,
    COHORTS,
    DAEMON_SETS,
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
    TOPOLOGIES,
    Json,
    Key,
    Kind,
)
from cede.api.pods import DaemonSet
from cede.api.policy import ClusterPolicy
from cede.kube import events
from cede.kube.cache import Cache
from cede.kube.client import AlreadyExists, ApiError, Client, Conflict, Forbidden, Invalid, NotFound
from quota_controller import status, watchdog
from quota_controller.bodies import Target
from quota_controller.plan import Plan, Seen, plan
from quota_controller.problems import owner_of

log = logging.getLogger("quota_controller")

OURS = f"{names.MANAGED_BY}={names.MANAGED_BY_CEDE}"
LABELLED = (
    TOPOLOGIES, RESOURCE_FLAVORS, COHORTS, PRIORITY_CLASSES, CLUSTER_QUEUES, LOCAL_QUEUES, SERVICES, ROLE_BINDINGS,
)  # fmt: skip
IDLE_S = 60.0
RETRY_S = 2.0
LAG_S = 5.0
"""A watch that has not shown a write of ours by then never will: somebody has deleted the object since."""
ROOT: Key = (names.SYSTEM_NAMESPACE, names.ROOT_SECRET)


class Controller:
    """One pass at a time; from pass to pass it knows only what it heard of the lease and what it has just written."""

    def __init__(self, client: Client, wake: asyncio.Event, clock: Callable[[], float]) -> None:
        self.client, self.wake, self.clock = client, wake, clock
        self.policies = Cache(client, POLICIES, ClusterPolicy, changed=wake.set)
        self.allocations = Cache(client, ALLOCATIONS, ComputeAllocation, changed=wake.set)
        self.nodes = Cache(client, NODES, Node, changed=wake.set)
        self.daemons = Cache(client, DAEMON_SETS, DaemonSet, changed=wake.set)
        self.leases = Cache(client, LEASES, Lease, namespace=names.SYSTEM_NAMESPACE, changed=self._lease_changed)
        self.raw: dict[Kind, Cache[Any]] = {k: Cache(client, k, dict, labels=OURS, changed=wake.set) for k in LABELLED}
        self.raw[NAMESPACES] = Cache(client, NAMESPACES, dict, changed=wake.set)
        self.raw[SECRETS] = Cache(client, SECRETS, dict, fields=f"metadata.name={names.CONTROL_SECRET}", changed=wake.set)
        self.heard: watchdog.Heard | None = None
        self.root = b""
        self.written: dict[tuple[Kind, Key], tuple[Json, float]] = {}  # what the watch may not have shown us yet

    @property
    def caches(self) -> list[Cache[Any]]:
        return [self.policies, self.allocations, self.nodes, self.daemons, self.leases, *self.raw.values()]

    def _lease_changed(self) -> None:
        """A renewal is no news while its holder leads."""
        if self.heard is None or self.clock() - self.heard.at > RETRY_S * 2:
            self.wake.set()

    # --- look ---------------------------------------------------------------------------------------------------
    async def reconcile(self) -> float:
        """One pass: look, decide, act. Returns the seconds we may sleep if nothing changes."""
        now = self.clock()
        self.root = self.root or await self._root_key()
        seen = self._look(now)
        decided = plan(seen)
        clashes = await self._act(seen, decided, now)
        await self._report(seen, decided, clashes, now)
        left = watchdog.seconds_left(self.heard, _patience(seen.policy), now)
        again = RETRY_S if clashes else LAG_S if self.written else IDLE_S
        return again if left is None else min(again, left + 0.1)

    def _look(self, now: float) -> Seen:
        lease = self.leases.get((names.SYSTEM_NAMESPACE, names.SCHEDULER_LEASE))
        self.heard = watchdog.hear(self.heard, lease, now)
        policy = self.policies.get(("", names.POLICY_NAME))
        live = {(kind, key): obj for kind, cache in self.raw.items() for key, obj in cache.objects.items()}
        for at, (body, _) in self._not_shown_yet(live, now):
            live[at] = body
        allocations = sorted(self.allocations.all(), key=lambda a: a.metadata.name)
        leader = watchdog.leader(self.heard, _patience(policy), now)
        return Seen(policy, tuple(allocations), tuple(self.nodes.all()), tuple(self.daemons.all()), live, leader, self.root)

    def _not_shown_yet(self, live: dict[tuple[Kind, Key], Json], now: float) -> list[tuple[tuple[Kind, Key], tuple[Json, float]]]:
        """Our last writes that the watches have not caught up with."""
        self.written = {
            at: (body, when) for at, (body, when) in self.written.items() if now - when < LAG_S and _version(body) > _version(live.get(at))
        }
        return [(at, entry) for at, entry in self.written.items() if at[0] in self.raw]

    # --- act ----------------------------------------------------------------------------------------------------
    async def _act(self, seen: Seen, decided: Plan, now: float) -> dict[str, str]:
        """Writes what differs and nothing else. Returns what stands in the way, by allocation, in a sentence."""
        await self._hold_on(seen.allocations)
        clashes: dict[str, str] = {}
        for target in decided.targets:
            if target.owner in clashes or target.is_said_by(seen.live.get((target.kind, target.key))):
                continue
            if why := await self._write(target, seen, now):
                clashes[target.owner] = why
                log.warning("in the way", extra={"owner": target.owner, "why": why})
        for kind, key, uid in decided.unwanted(seen.live):
            if not seen.live[kind, key]["metadata"].get("deletionTimestamp"):
                log.info("delete", extra={"kind": kind.kind, "key": "/".join(key)})
                with suppress(NotFound, Conflict):
                    await self.client.delete(kind, key, uid=uid)
                self.written.pop((kind, key), None)
        await self._abandon(decided)
        await self._let_go(seen, decided)
        return clashes

    async def _write(self, target: Target, seen: Seen, now: float) -> str:
        """Applies the target, unless what is there is not ours. Returns why not."""
        at = (target.kind, target.key)
        try:
            if at not in seen.live and not await self._free(target):
                cure = "delete it, or name the allocation or type otherwise"
                return f"{target.words} exists and is not ours, so it is left alone: {cure}"
            log.info("apply", extra={"kind": target.kind.kind, "key": "/".join(target.key), "owner": target.owner})
            body = await self.client.apply(target.kind, target.key, target.body)
        except (Invalid, Forbidden) as error:
            return f"{target.words} was refused: {error.message}"
        except (NotFound, Conflict):
            return f"{target.words} changed meanwhile: it is tried again"
        self.written[at] = (body, now)
        return ""

    async def _free(self, target: Target) -> bool:
        """Whether the place is empty, or holds an object of ours that has lost its labels."""
        try:
            there: Json = await self.client.get(target.kind, dict, target.key)
        except NotFound:
            return True
        managers = {entry.get("manager") for entry in there["metadata"].get("managedFields") or []}
        return bool(owner_of(there)) or names.QUOTA_CONTROLLER in managers

    async def _hold_on(self, allocations: Iterable[ComputeAllocation]) -> None:
        """Every allocation that is not going carries our finalizer, before anything is made for it."""
        for a in allocations:
            if a.metadata.deletionTimestamp or names.ALLOCATION_FINALIZER in a.metadata.finalizers:
                continue
            finalizers = [*a.metadata.finalizers, names.ALLOCATION_FINALIZER]
            body = {"metadata": {"finalizers": finalizers, "resourceVersion": a.metadata.resourceVersion}}
            with suppress(NotFound, Conflict):  # the next pass sees it as it is
                await self.client.patch(ALLOCATIONS, a.metadata.key, body)

    async def _abandon(self, decided: Plan) -> None:
        for key, uid in decided.abandoned:
            log.info("leave namespace", extra={"namespace": key[1]})
            labels = {names.TEAM: None, names.ALLOCATION: None}  # who made it stays true
            with suppress(NotFound, Conflict):
                await self.client.patch(NAMESPACES, key, {"metadata": {"uid": uid, "labels": labels}})

    async def _let_go(self, seen: Seen, decided: Plan) -> None:
        """An allocation of which nothing is left loses our finalizer, and so goes."""
        owned = {owner_of(obj) for obj in seen.live.values()}
        for a in seen.allocations:
            name, finalizers = a.metadata.name, a.metadata.finalizers
            if name in decided.leaving and name not in owned and names.ALLOCATION_FINALIZER in finalizers:
                at = f"/metadata/finalizers/{finalizers.index(names.ALLOCATION_FINALIZER)}"
                steps: list[Json] = [
                    {"op": "test", "path": at, "value": names.ALLOCATION_FINALIZER},
                    {"op": "remove", "path": at},
                ]
                with suppress(NotFound, Conflict, Invalid):
                    await self.client.patch(ALLOCATIONS, a.metadata.key, steps)

    async def _root_key(self) -> bytes:
        """The entry of the root Secret, which is made if there is none."""
        try:
            secret: Json = await self.client.get(SECRETS, dict, ROOT)
        except NotFound:
            labels = {names.MANAGED_BY: names.MANAGED_BY_CEDE}  # of no allocation: no plan may ever delete it
            entry = base64.b64encode(secrets.token_hex(32).encode()).decode()
            meta = {"name": ROOT[1], "namespace": ROOT[0], "labels": labels}
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": meta,
                "type": "Opaque",
                "data": {names.SECRET_KEY: entry},
            }
            with suppress(AlreadyExists):
                await self.client.create(SECRETS, body, namespace=ROOT[0])
            secret = await self.client.get(SECRETS, dict, ROOT)
        return base64.b64decode(secret["data"][names.SECRET_KEY])

    # --- report -------------------------------------------------------------------------------------------------
    async def _report(self, seen: Seen, decided: Plan, clashes: dict[str, str], now: float) -> None:
        told = status.allocations(decided, seen, clashes, now)
        for a in seen.allocations:
            await self._tell(ALLOCATIONS, a, told[a.metadata.name], now)
        if seen.policy and (of_policy := status.policy(decided, seen, clashes, now)):
            await self._tell(POLICIES, seen.policy, of_policy, now)

    async def _tell(self, kind: Kind, of: Any, new: Any, now: float) -> None:
        """Writes a status that differs, and an event when Ready says something new."""
        written, _ = self.written.get((kind, of.metadata.key), ({}, 0.0))
        if new == of.status or _version(written) > int(of.metadata.resourceVersion or 0):
            return
        meta = {"name": of.metadata.name}
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": meta,
            "status": new.model_dump(),
        }
        with suppress(NotFound, Conflict):
            self.written[kind, of.metadata.key] = (
                await self.client.apply(kind, of.metadata.key, body, subresource="status"),
                now,
            )
            before, after = _ready(of.status.conditions), _ready(new.conditions)
            news = (before.get("reason"), before.get("message")) != (after["reason"], after["message"])
            if news and after["status"] != "Unknown":
                await self._event(kind, of, after, now)

    async def _event(self, kind: Kind, of: Any, ready: Json, now: float) -> None:
        log.info(
            "ready",
            extra={"kind": kind.kind, "object": of.metadata.name, "ready": ready["status"], "why": ready["message"]},
        )
        regarding = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": of.metadata.name,
            "uid": of.metadata.uid,
        }
        type_ = "Warning" if ready["status"] == "False" else "Normal"
        with suppress(ApiError):  # an event is a courtesy
            await events.record(
                self.client, manager=names.QUOTA_CONTROLLER, regarding=regarding, reason=ready["reason"],
                note=ready["message"], now=now, type_=type_,
            )  # fmt: skip


def _ready(conditions: list[Json]) -> Json:
    return next((c for c in conditions if c["type"] == names.READY), {})


def _version(obj: Json | None) -> int:
    """Versions of one kind only grow, and may be compared since Kubernetes 1.35; 0 for what is not there."""
    return int(obj["metadata"].get("resourceVersion") or 0) if obj else 0


def _patience(policy: ClusterPolicy | None) -> float:
    return float(policy.spec.takeBack.watchdogSeconds if policy else 120)
