"""PURE. (policy, allocations, nodes) → the objects that should exist, and why others do not."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.budget import MonthUse
from cede.api.kueue import Node
from cede.api.objects import CLUSTER_QUEUES, NAMESPACES, Key, Kind
from cede.api.pods import DaemonSet
from cede.api.policy import ClusterPolicy
from cede.api.reasons import AllocationReason
from cede.api.resources import Quota, total
from cede.api.short_text import cut
from cede.api.support import Kubernetes
from cede.api.unreadable import ALL_READABLE, UnreadableObjects
from cede.kueue_settings.config import KueueInstallation
from quota_controller.desired import kueue_objects, rbac
from quota_controller.desired.borrowing import (
    CohortUsage,
    available_quota,
    borrowing_limits,
    cohort_usage,
    lending_limits,
)
from quota_controller.desired.budgets import BudgetUse, budget_uses
from quota_controller.desired.capacity import Capacity, capacities
from quota_controller.desired.conflicts import Problem, Problems, unknown_names
from quota_controller.desired.desired_object import SHARED, DesiredObject, LiveObjects, owner_of
from quota_controller.desired.grant_records import GrantRecord, after_edit, recorded
from quota_controller.desired.grants import Grants, grant
from quota_controller.desired.in_use import (
    abandoned_namespaces,
    as_they_are,
    is_drained,
    nominal_quota,
    place,
    queues_without_spec,
    reserving_workloads,
)
from quota_controller.desired.quota_entries import owned_quota
from quota_controller.desired.team_namespace import key_entry, namespace_objects

MAX_REASON_LENGTH = 300
NO_POLICY = (
    f"there is no ClusterPolicy named {names.POLICY_NAME}: apply one; "
    "until then all quotas stay as they are, and Kueue preempts by its own rules"
)


@dataclass(frozen=True)
class Snapshot:
    """The cluster at one moment."""

    policy: ClusterPolicy | None
    allocations: tuple[ComputeAllocation, ...]
    nodes: tuple[Node, ...]
    daemon_sets: tuple[DaemonSet, ...]
    live: LiveObjects
    # the scheduler that leads and preempts; empty when none has finished a pass in time
    leader: str
    # the key that the namespaces' keys are derived from; empty when it is lost
    root_key: bytes
    # the one before it; empty if there was none
    previous_root_key: bytes
    # Unix seconds
    now: float
    # a scheduler that finishes passes again; Kueue still preempts
    returning: str = ""
    # None before it was read
    kubernetes: Kubernetes | None = None
    kueue: KueueInstallation = field(default_factory=KueueInstallation)
    # objects that count as they last were, each with why it cannot be read
    unreadable: tuple[str, ...] = ()
    # the names of the allocations among them; one that was read before is in `allocations` too
    unreadable_allocations: frozenset[str] = frozenset()
    unreadable_to_scheduler: UnreadableObjects = ALL_READABLE
    # what the last plan granted, by the allocation's uid; the status counts for those not in it
    grant_records: Mapping[str, GrantRecord] = field(default_factory=dict)
    # what teams have used in this month; None without a ledger
    month_use: MonthUse | None = None


@dataclass(frozen=True)
class Plan:
    """What should be, and the figures it is based on, which the statuses report."""

    objects: tuple[DesiredObject, ...] = ()
    # owners whose objects are not deleted, even if they are not in `objects`
    kept: frozenset[str] = frozenset()
    # by allocation: the namespace that it has; empty if it has none
    namespaces: Mapping[str, str] = field(default_factory=dict)
    # allocations that are being deleted and are drained: their objects are deleted
    drained: frozenset[str] = frozenset()
    # (key, uid) of namespaces that lose the labels of Cede
    abandoned_namespaces: tuple[tuple[Key, str], ...] = ()
    problems: Problems = field(default_factory=dict)
    # by instance type
    capacities: Mapping[str, Capacity] = field(default_factory=dict)
    # by allocation
    owned: Mapping[str, Quota] = field(default_factory=dict)
    grants: Grants = field(default_factory=Grants)
    # by the allocation's uid: for the snapshot of the next plan
    grant_records: Mapping[str, GrantRecord] = field(default_factory=dict)
    usage: CohortUsage = field(default_factory=CohortUsage)
    # by allocation: what its next job could use
    available: Mapping[str, Quota] = field(default_factory=dict)
    # by allocation, of those that have a budget
    budgets: Mapping[str, BudgetUse] = field(default_factory=dict)
    # whether Cede preempts; if not, Kueue does
    cede_preempts: bool = False

    def unwanted(self, live: LiveObjects) -> list[tuple[Kind, Key, str]]:
        """(kind, key, uid) of Cede's objects that should not exist; never a namespace."""
        wanted = {desired.object_id for desired in self.objects}
        return [
            (kind, key, obj["metadata"].get("uid", ""))
            for (kind, key), obj in live.items()
            if kind != NAMESPACES
            and (kind, key) not in wanted
            and owner_of(obj)
            and owner_of(obj) not in self.kept
        ]


def make_plan(snapshot: Snapshot) -> Plan:
    """What should exist now. Without a policy the quotas stay as they are and Kueue preempts;
    deletions continue."""
    drained = frozenset(
        allocation.metadata.name
        for allocation in snapshot.allocations
        if allocation.metadata.deletionTimestamp
        and is_drained(allocation.metadata.name, snapshot.live)
    )
    staying = [a for a in snapshot.allocations if a.metadata.name not in drained]
    if snapshot.policy is None:
        return _plan_without_policy(snapshot, staying, drained)
    return _plan_with_policy(snapshot, snapshot.policy, staying, drained)


def _plan_with_policy(
    snapshot: Snapshot,
    policy: ClusterPolicy,
    staying: list[ComputeAllocation],
    drained: frozenset[str],
) -> Plan:
    placement = place(staying, snapshot.live, policy.spec.security.controllerNamespaces)
    staying = list(placement.allocations)
    conflicts = placement.conflicts
    unread = _unread(snapshot)
    queues_left = queues_without_spec(snapshot.allocations, unread, snapshot.live)
    without_spec = unread | queues_left.keys()
    taken = total(nominal_quota(queue) for queue in queues_left.values())
    capacity_of = capacities(policy.spec.instanceTypes, snapshot.nodes, snapshot.daemon_sets)
    owned = {a.metadata.name: owned_quota(a.spec, capacity_of) for a in staying}
    records = _records(staying, snapshot.grant_records, capacity_of)
    grants = grant(owned, capacity_of, records, taken)
    usage = cohort_usage(
        snapshot.allocations, grants, snapshot.live, share_unallocated=policy.spec.shareUnallocated
    )
    types = policy.spec.instanceTypes
    budgets = budget_uses(staying, snapshot.month_use, types, snapshot.now)
    cede_preempts = bool(snapshot.leader) and policy.spec.mode == "Enforce"
    without_conflict = [a for a in staying if a.metadata.name not in conflicts]
    objects = [
        *kueue_objects.shared_objects(policy, grants.unallocated, snapshot.live),
        *rbac.viewer_bindings(without_conflict, without_spec, snapshot.live),
        *as_they_are(queues_left, unread, snapshot.live, cede_preempts=cede_preempts),
    ]
    available = {}
    for allocation in staying:
        name = allocation.metadata.name
        usable = grants.usable[name]
        borrowing_limit = borrowing_limits(allocation.spec, grants.granted[name], capacity_of)
        if name in budgets and budgets[name].is_hard_used:
            # Kueue evicts nobody for a lower borrowing limit
            borrowing_limit = Quota()
        lending_limit = lending_limits(allocation, usage.lent_by(name))
        available[name] = available_quota(allocation, usable, borrowing_limit, usage)
        # one that shall move is drained first: nothing may start in the namespace that it leaves
        leaves = name in placement.waiting and not reserving_workloads(name, snapshot.live)
        is_deleted = bool(allocation.metadata.deletionTimestamp)
        queue = kueue_objects.cluster_queue(
            allocation,
            policy.spec,
            usable,
            borrowing_limit,
            lending_limit,
            cede_preempts=cede_preempts,
            on_hold=leaves or is_deleted or not allocation.spec.active,
        )
        if cede_preempts:
            queue = kueue_objects.with_private_quota(queue, snapshot.live)
        objects.append(queue)
        if name not in conflicts:
            root_keys = (snapshot.root_key, snapshot.previous_root_key)
            key = key_entry(allocation.namespace, snapshot.live, root_keys, snapshot.now)
            objects += namespace_objects(allocation, policy.spec, key, snapshot.live)
            objects += rbac.member_bindings(allocation)
        elif conflicts[name].reason == AllocationReason.NAMESPACE_RESERVED:
            objects += rbac.bindings_with_fewer(allocation, snapshot.live)
    kept = without_spec | conflicts.keys()
    return Plan(
        objects=tuple(objects),
        kept=kept,
        namespaces={a.metadata.name: a.status.namespace for a in staying},
        drained=drained,
        abandoned_namespaces=abandoned_namespaces(staying, kept, snapshot.live),
        problems={**unknown_names(staying, policy), **conflicts, **placement.waiting},
        capacities=capacity_of,
        owned=owned,
        grants=grants,
        grant_records={a.metadata.uid: grants.records[a.metadata.name] for a in staying},
        usage=usage,
        available=available,
        budgets=budgets,
        cede_preempts=cede_preempts,
    )


def _records(
    allocations: Iterable[ComputeAllocation],
    last_records: Mapping[str, GrantRecord],
    capacity_of: Mapping[str, Capacity],
) -> dict[str, GrantRecord]:
    """What every allocation was granted before, by name, as far as its spec still asks for it."""
    records = {}
    for allocation in allocations:
        record = last_records.get(allocation.metadata.uid) or recorded(allocation)
        quotas = allocation.spec.quotas
        records[allocation.metadata.name] = after_edit(record, quotas, capacity_of)
    return records


def no_policy(snapshot: Snapshot) -> str:
    """Why there is no policy, with the cure."""
    start = f"{ClusterPolicy.__name__} {names.POLICY_NAME}:"
    unreadable = [reason for reason in snapshot.unreadable if reason.startswith(start)]
    if not unreadable:
        return NO_POLICY
    return (
        f"this version of Cede cannot read {cut(unreadable[0], MAX_REASON_LENGTH)}: install the "
        "version that wrote it, or apply one that this version knows; until then all quotas stay "
        "as they are, and Kueue preempts by its own rules"
    )


def _plan_without_policy(
    snapshot: Snapshot, staying: list[ComputeAllocation], drained: frozenset[str]
) -> Plan:
    unread = _unread(snapshot)
    queues_left = queues_without_spec(snapshot.allocations, unread, snapshot.live)
    objects = as_they_are(queues_left, unread, snapshot.live, cede_preempts=False)
    for allocation in staying:
        queue = snapshot.live.get((CLUSTER_QUEUES, allocation.metadata.key))
        if queue:
            own_tasks = allocation.spec.preemptOwnTasks
            is_deleted = bool(allocation.metadata.deletionTimestamp)
            objects.append(
                kueue_objects.as_it_is(queue, own_tasks, cede_preempts=False, on_hold=is_deleted)
            )
    staying_names = frozenset(a.metadata.name for a in staying)
    kept = staying_names | queues_left.keys() | unread
    if kept or snapshot.allocations:
        kept |= {SHARED}
    problem = Problem(AllocationReason.NO_POLICY, no_policy(snapshot))
    return Plan(
        objects=tuple(objects),
        kept=kept,
        drained=drained,
        abandoned_namespaces=abandoned_namespaces(staying, kept, snapshot.live),
        problems=dict.fromkeys(staying_names, problem),
        grant_records=snapshot.grant_records,
    )


def _unread(snapshot: Snapshot) -> frozenset[str]:
    """Allocations that exist, and of which nothing else is known."""
    return snapshot.unreadable_allocations - {a.metadata.name for a in snapshot.allocations}
