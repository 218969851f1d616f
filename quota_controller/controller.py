"""Look, decide, act: reads the cluster from caches, makes a plan, applies it, reports statuses."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from cede.api import names, unreadable
from cede.api.allocation import ComputeAllocation
from cede.api.budget import noted_use
from cede.api.kueue import Lease, Node
from cede.api.objects import (
    ALLOCATIONS,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    NODES,
    POLICIES,
    RESOURCE_QUOTAS,
    SECRETS,
    Json,
    Key,
    Kind,
)
from cede.api.pods import DaemonSet
from cede.api.policy import ClusterPolicy, Preemption
from cede.api.unreadable import UnreadableObjects
from cede.kube.cache import Cache
from cede.kube.client import Client
from cede.kube.errors import NotFound
from cede.kube.expectations import Expectations
from cede.kube.loop import Unfinished
from cede.kueue_settings import config as kueue_config
from cede.kueue_settings.config import KueueInstallation
from quota_controller import leftovers, metrics
from quota_controller.apply import WATCH_LAG_S, Applier
from quota_controller.desired.conflicts import Problems
from quota_controller.desired.desired_object import LABELLED_KINDS, ObjectId
from quota_controller.desired.grant_records import GrantRecord
from quota_controller.desired.object_counts import same_limits
from quota_controller.desired.plan import Snapshot, make_plan
from quota_controller.kubernetes_version import KubernetesVersion
from quota_controller.removed_classes import RemovedClasses
from quota_controller.root_key import RootKey
from quota_controller.status import lease_watchdog
from quota_controller.status_writer import StatusWriter

P = TypeVar("P")

SCHEDULER_LEASE: Key = (names.SYSTEM_NAMESPACE, names.SCHEDULER_LEASE)
POLICY: Key = ("", names.POLICY_NAME)

IDLE_INTERVAL_S = 60.0
RETRY_INTERVAL_S = 2.0
MAX_RETRY_INTERVAL_S = 32.0
WATCHDOG_MARGIN_S = 0.1
"""A pass for the watchdog starts this long after its time, so that the time has passed for sure."""


class Controller:
    """Makes one pass at a time.

    From pass to pass it remembers the last pass of the leading scheduler, the root key, what was
    granted, the problems of the last pass and, in its parts, what it has just written.
    """

    def __init__(self, client: Client, wake: asyncio.Event, clock: Callable[[], float]) -> None:
        self.client = client
        self.wake = wake
        self.clock = clock
        self.expectations: dict[Kind, Expectations] = {}
        self.policies = self._cache(POLICIES, ClusterPolicy)
        self.allocations = self._cache(ALLOCATIONS, ComputeAllocation)
        self.nodes = self._cache(NODES, Node)
        self.daemon_sets = self._cache(DAEMON_SETS, DaemonSet)
        # a renewal is no change: leaders renew their leases in nearly every pass over many teams
        self.leases = self._cache(
            LEASES,
            Lease,
            namespace=names.SYSTEM_NAMESPACE,
            changed=self._lease_changed,
            expectations=None,
        )
        # the objects that the plan is compared with
        self.live: dict[Kind, Cache[Any]] = {
            kind: self._cache(kind, dict, labels=names.MANAGED_SELECTOR) for kind in LABELLED_KINDS
        }
        # Kubernetes writes the counts into the status at each new pod
        self.live[RESOURCE_QUOTAS] = self._cache(
            RESOURCE_QUOTAS, dict, labels=names.MANAGED_SELECTOR, is_same=same_limits
        )
        self.live[NAMESPACES] = self._cache(NAMESPACES, dict)
        self.live[SECRETS] = self._cache(
            SECRETS, dict, fields=f"metadata.name={names.CONTROL_SECRET}"
        )
        self.kueue_config_map = self._cache_of_one(CONFIG_MAPS, kueue_config.CONFIG_MAP)
        self.kueue_deployment = self._cache_of_one(DEPLOYMENTS, kueue_config.DEPLOYMENT)
        self.ledger_notes = self._cache_of_one(CONFIG_MAPS, names.LEDGER_NOTES)
        self.leadership: lease_watchdog.Leadership | None = None
        self.unreadable_to_scheduler = unreadable.ALL_READABLE
        self.root_key = RootKey(client)
        self.kubernetes = KubernetesVersion(client)
        self.removed_classes = RemovedClasses(client)
        # What the last plan granted, by uid. It counts more than the statuses: the watch may show
        # older ones, and the API server may refuse them.
        self.grant_records: Mapping[str, GrantRecord] = {}
        # the problems of the last writes, and the time of the first pass that had the same
        self.last_problems: tuple[Problems, Problems] = {}, {}
        self.last_problems_since = 0.0
        self.applier = Applier(client, lambda: self.clock(), self._expect)
        self.status_writer = StatusWriter(client, self._expect)

    def _cache(self, kind: Kind, cls: type[P], **options: Any) -> Cache[P]:
        expectations = self.expectations.setdefault(kind, Expectations())
        options = {"changed": self.wake.set, "expectations": expectations, **options}
        return Cache(self.client, kind, cls, **options)

    def _cache_of_one(self, kind: Kind, key: Key) -> Cache[Any]:
        return self._cache(kind, dict, namespace=key[0], fields=f"metadata.name={key[1]}")

    @property
    def required_caches(self) -> list[Cache[Any]]:
        """The caches without which no plan can be made."""
        return [
            *(self.policies, self.allocations, self.nodes, self.daemon_sets, self.leases),
            *self.live.values(),
        ]

    @property
    def needed_caches(self) -> list[Cache[Any]]:
        """Without the others, the policy's status says what is missing."""
        return [self.policies]

    @property
    def caches(self) -> list[Cache[Any]]:
        """All caches."""
        optional = [self.kueue_config_map, self.kueue_deployment, self.ledger_notes]
        return [*self.required_caches, *optional]

    def begin(self) -> None:
        """We lead from now on. Another replica may have led before, so the statuses count."""
        self.grant_records = {}

    def _expect(self, kind: Kind, key: Key, body: Json) -> None:
        """Notes our own write, so that its watch event does not cause another pass."""
        version = body["metadata"].get("resourceVersion", "")
        self.expectations[kind].record_write(key, version)

    def _lease_changed(self) -> None:
        """A pass by the leader changes nothing while it leads."""
        before = self._scheduler()
        self._observe_lease()
        if self._scheduler() != before:
            self.wake.set()

    def _observe_lease(self) -> None:
        lease = self.leases.get(SCHEDULER_LEASE)
        notes = lease.metadata.annotations if lease else {}
        self.unreadable_to_scheduler = unreadable.parse(notes.get(names.UNREADABLE, ""))
        watchdog_s = _watchdog_s(self.policies.get(POLICY))
        self.leadership = lease_watchdog.observe(self.leadership, lease, watchdog_s, self.clock())

    def _leaders(self) -> tuple[str, str]:
        """The scheduler that preempts, and the one that does not preempt yet."""
        known = (self.leadership, _watchdog_s(self.policies.get(POLICY)), self.clock())
        return lease_watchdog.leader(*known), lease_watchdog.returning(*known)

    def _scheduler(self) -> tuple[str, str, UnreadableObjects]:
        """All that a snapshot has from the scheduler's lease."""
        return *self._leaders(), self.unreadable_to_scheduler

    # --- one pass ---------------------------------------------------------------------------------
    async def reconcile(self) -> float:
        """One pass: look, decide, act. Returns the seconds until the next, if nothing changes.

        Raises Unfinished if a kind cannot be read that an installed cluster has.
        """
        now = self.clock()
        for expectations in self.expectations.values():
            expectations.clear_observed()

        # Nothing is decided before every required kind has been read.
        unsynced = self._unsynced_caches()
        if unsynced:
            await self._report_unsynced(unsynced, now)
            if all(isinstance(cache.trouble, NotFound) for cache in unsynced):
                # Kueue is not installed yet
                return RETRY_INTERVAL_S
            raise Unfinished(RETRY_INTERVAL_S)

        await self.root_key.refresh(now)
        await self.kubernetes.refresh(now)
        snapshot = self._snapshot(now)
        plan = make_plan(snapshot)
        self.grant_records = plan.grant_records
        await self.applier.apply(snapshot, plan)
        await self.removed_classes.delete_unused(snapshot.policy, snapshot.live, now)
        if not snapshot.leader and not snapshot.returning:
            await leftovers.undo(self.client, snapshot.live)

        # The statuses report on the objects as they were just written.
        snapshot = replace(snapshot, live=self._live_objects(now))
        problems, edits = self.applier.problems, self.applier.reverted_edits
        await self.status_writer.report(snapshot, plan, problems, edits, now)

        # If only our own writes were observed during the pass, no new one is needed.
        planned_for = snapshot.leader, snapshot.returning, snapshot.unreadable_to_scheduler
        is_own = all(expectations.only_own_writes for expectations in self.expectations.values())
        if is_own and self._scheduler() == planned_for:
            self.wake.clear()
        return self._seconds_to_next_pass(snapshot.policy, now)

    def _unsynced_caches(self) -> list[Cache[Any]]:
        """The caches to wait for. Kueue's own objects are not required once they cannot be read."""
        required = self.required_caches
        return [
            cache
            for cache in self.caches
            if not cache.synced.is_set() and (cache in required or not cache.trouble)
        ]

    async def _report_unsynced(self, unsynced: Iterable[Cache[Any]], now: float) -> None:
        """The policy's status reports kinds that cannot be read at all."""
        read_errors = {c.kind.kind: str(c.trouble) for c in unsynced if c.trouble}
        policy = self.policies.get(POLICY)
        if policy and read_errors:
            await self.status_writer.report_unsynced(policy, read_errors, now)

    def _snapshot(self, now: float) -> Snapshot:
        self._observe_lease()
        leader, returning, unreadable_to_scheduler = self._scheduler()
        metrics.SCHEDULER_LEADS.set(bool(leader))
        return Snapshot(
            policy=self.policies.get(POLICY),
            allocations=tuple(sorted(self.allocations.all(), key=lambda a: a.metadata.name)),
            nodes=tuple(self.nodes.all()),
            daemon_sets=tuple(self.daemon_sets.all()),
            live=self._live_objects(now),
            leader=leader,
            returning=returning,
            root_key=self.root_key.value,
            previous_root_key=self.root_key.previous,
            now=now,
            kubernetes=self.kubernetes.value,
            kueue=KueueInstallation(
                self.kueue_config_map.get(kueue_config.CONFIG_MAP),
                self.kueue_deployment.get(kueue_config.DEPLOYMENT),
                str(self.kueue_config_map.trouble or self.kueue_deployment.trouble or ""),
            ),
            unreadable=tuple(
                reason for cache in self.caches for reason in cache.unreadable.values()
            ),
            unreadable_allocations=frozenset(name for _, name in self.allocations.unreadable),
            unreadable_to_scheduler=unreadable_to_scheduler,
            grant_records=self.grant_records,
            month_use=noted_use(self.ledger_notes.get(names.LEDGER_NOTES)),
        )

    def _live_objects(self, now: float) -> dict[ObjectId, Json]:
        live = {
            (kind, key): obj
            for kind, cache in self.live.items()
            for key, obj in cache.objects.items()
        }
        self.applier.overlay(live, now)
        return live

    # --- the next pass ----------------------------------------------------------------------------
    def _seconds_to_next_pass(self, policy: ClusterPolicy | None, now: float) -> float:
        """Soon while something failed or is not confirmed; in time for the watchdog in any case."""
        retry_interval = self._retry_interval(now)
        seconds = IDLE_INTERVAL_S
        if any(self.last_problems) or not self.root_key.value:
            seconds = retry_interval
        elif self.status_writer.has_waiting:
            # until it is written, another replica does not know what was granted
            seconds = RETRY_INTERVAL_S
        elif self.applier.unseen_writes:
            seconds = WATCH_LAG_S
        to_watchdog = lease_watchdog.seconds_left(self.leadership, _watchdog_s(policy), now)
        if to_watchdog is None:
            return seconds
        return min(seconds, to_watchdog + WATCHDOG_MARGIN_S)

    def _retry_interval(self, now: float) -> float:
        """Seconds to the next try: as long as the problems have been the same, within limits."""
        problems = self.applier.problems, self.status_writer.problems
        if self.last_problems != problems:
            self.last_problems = problems
            self.last_problems_since = now
        unchanged_s = now - self.last_problems_since
        return min(max(RETRY_INTERVAL_S, unchanged_s), MAX_RETRY_INTERVAL_S)


def _watchdog_s(policy: ClusterPolicy | None) -> float:
    preemption = policy.spec.preemption if policy else Preemption()
    return float(preemption.watchdogSeconds)
