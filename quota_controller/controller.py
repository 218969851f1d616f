"""Look, decide, act: what the plan says should exist exists, what it says should not goes, and the
statuses say so."""

import asyncio
import base64
import logging
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.kueue import Lease, Node
from cede.api.objects import (
    ALLOCATIONS,
    CLUSTER_QUEUES,
    CLUSTER_ROLE_BINDINGS,
    COHORTS,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
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
from cede.kube.cache import Cache
from cede.kube.client import AlreadyExists, Client, NotFound
from cede.kube.expectations import Expectations
from quota_controller.apply import LAG_S, Acts, At
from quota_controller.desired.conflicts import Problems
from quota_controller.desired.plan import Seen, plan
from quota_controller.status import kueue_config, lease_watchdog
from quota_controller.status.kueue_config import Kueue
from quota_controller.status_writer import Teller

P = TypeVar("P")
log = logging.getLogger("quota_controller")

LABELLED = (
    TOPOLOGIES,
    RESOURCE_FLAVORS,
    COHORTS,
    PRIORITY_CLASSES,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    SERVICES,
    ROLE_BINDINGS,
    CLUSTER_ROLE_BINDINGS,
)
IDLE_S = 60.0
RETRY_S = 2.0
RETRY_MOST_S = 32.0
ROOT: Key = (names.SYSTEM_NAMESPACE, names.ROOT_SECRET)


class Controller:
    """One pass at a time; from pass to pass it knows only what it heard of the lease and what it
    has just written."""

    def __init__(self, client: Client, wake: asyncio.Event, clock: Callable[[], float]) -> None:
        self.client = client
        self.wake = wake
        self.clock = clock
        self.expectations: dict[Kind, Expectations] = {}
        self.policies = self._cache(POLICIES, ClusterPolicy)
        self.allocations = self._cache(ALLOCATIONS, ComputeAllocation)
        self.nodes = self._cache(NODES, Node)
        self.daemons = self._cache(DAEMON_SETS, DaemonSet)
        self.leases = self._cache(
            LEASES, Lease, namespace=names.SYSTEM_NAMESPACE, changed=self._lease_changed
        )
        self.raw: dict[Kind, Cache[Any]] = {
            kind: self._cache(kind, dict, labels=names.MANAGED_SELECTOR) for kind in LABELLED
        }
        self.raw[NAMESPACES] = self._cache(NAMESPACES, dict)
        self.raw[SECRETS] = self._cache(
            SECRETS, dict, fields=f"metadata.name={names.CONTROL_SECRET}"
        )
        self.settings = self._named(CONFIG_MAPS, kueue_config.CONFIG_MAP)
        self.deployment = self._named(DEPLOYMENTS, kueue_config.DEPLOYMENT)
        self.heard: lease_watchdog.Heard | None = None
        self.root = b""
        # what was in the way last, and since when
        self.met: tuple[Problems, float] = {}, 0.0
        self.acts = Acts(client, lambda: self.clock(), self._wrote)
        self.teller = Teller(client, self._wrote)

    def _cache(self, kind: Kind, cls: type[P], **more: Any) -> Cache[P]:
        self.expectations[kind] = Expectations()
        return Cache(
            self.client,
            kind,
            cls,
            **{"changed": self.wake.set, "expectations": self.expectations[kind], **more},
        )

    def _named(self, kind: Kind, key: Key) -> Cache[Any]:
        return self._cache(kind, dict, namespace=key[0], fields=f"metadata.name={key[1]}")

    @property
    def caches(self) -> list[Cache[Any]]:
        """What is heard; a pass needs all of `needed`."""
        return [*self.needed, self.settings, self.deployment]

    @property
    def needed(self) -> list[Cache[Any]]:
        return [
            self.policies,
            self.allocations,
            self.nodes,
            self.daemons,
            self.leases,
            *self.raw.values(),
        ]

    def _wrote(self, kind: Kind, key: Key, body: Json) -> None:
        self.expectations[kind].record_write(key, body["metadata"].get("resourceVersion", ""))

    def _lease_changed(self) -> None:
        """A renewal is no news while its holder leads."""
        if self.heard is None or self.clock() - self.heard.at > RETRY_S * 2:
            self.wake.set()

    # --- look -------------------------------------------------------------------------------------
    async def reconcile(self) -> float:
        """One pass: look, decide, act. Returns the seconds we may sleep if nothing changes."""
        now = self.clock()
        for expectations in self.expectations.values():
            expectations.clear_observed()
        if deaf := [
            cache
            for cache in self.caches
            if not cache.synced.is_set() and (cache in self.needed or not cache.trouble)
        ]:
            return await self._wait(deaf, now)
        self.root = self.root or await self._root_key()
        seen = self._look(now)
        decided = plan(seen)
        await self.acts.carry_out(seen, decided)
        # with what was just written
        seen = replace(seen, live=self._live(now))
        await self.teller.report(seen, decided, self.acts.clashes, self.acts.edits, now)
        if all(expectations.only_own_writes for expectations in self.expectations.values()):
            self.wake.clear()
        left = lease_watchdog.seconds_left(self.heard, _patience(seen.policy), now)
        rest = self._rest(now)
        again = (
            rest if self.acts.clashes or not self.root else LAG_S if self.acts.written else IDLE_S
        )
        return again if left is None else min(again, left + 0.1)

    def _rest(self, now: float) -> float:
        """Seconds until what is in the way is tried again: at first soon, then ever more seldom
        while it is the same."""
        if self.met[0] != self.acts.clashes:
            self.met = self.acts.clashes, now
        return min(max(RETRY_S, now - self.met[1]), RETRY_MOST_S)

    async def _wait(self, deaf: Iterable[Cache[Any]], now: float) -> float:
        """Until everything has been heard nothing is decided; what cannot be heard at all is said
        on the policy."""
        troubles = {cache.kind.kind: cache.trouble for cache in deaf if cache.trouble}
        policy = self.policies.get(("", names.POLICY_NAME))
        if policy and troubles:
            await self.teller.report_deaf(policy, troubles, now)
        return RETRY_S

    def _look(self, now: float) -> Seen:
        lease = self.leases.get((names.SYSTEM_NAMESPACE, names.SCHEDULER_LEASE))
        self.heard = lease_watchdog.hear(self.heard, lease, now)
        policy = self.policies.get(("", names.POLICY_NAME))
        allocations = sorted(self.allocations.all(), key=lambda a: a.metadata.name)
        leader = lease_watchdog.leader(self.heard, _patience(policy), now)
        return Seen(
            policy,
            tuple(allocations),
            tuple(self.nodes.all()),
            tuple(self.daemons.all()),
            self._live(now),
            leader,
            self.root,
            self._kueue(),
        )

    def _kueue(self) -> Kueue:
        trouble = self.settings.trouble or self.deployment.trouble
        return Kueue(
            self.settings.get(kueue_config.CONFIG_MAP),
            self.deployment.get(kueue_config.DEPLOYMENT),
            trouble,
        )

    def _live(self, now: float) -> dict[At, Json]:
        live = {
            (kind, key): obj
            for kind, cache in self.raw.items()
            for key, obj in cache.objects.items()
        }
        self.acts.overlay(live, now)
        return live

    async def _root_key(self) -> bytes:
        """The entry of the root Secret, which is made if there is none; nothing when it holds no
        key."""
        try:
            secret: Json = await self.client.get(SECRETS, dict, ROOT)
        except NotFound:
            # of no allocation: no plan may ever delete it
            labels = {names.MANAGED_BY: names.MANAGED_BY_CEDE}
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
        return base64.b64decode((secret.get("data") or {}).get(names.SECRET_KEY, ""))


def _patience(policy: ClusterPolicy | None) -> float:
    return float(policy.spec.preemption.watchdogSeconds if policy else 120)
