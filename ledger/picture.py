"""PURE. What the objects of the cluster say now: capacity, what teams own, what jobs hold."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import NamedTuple

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.kueue import Workload
from cede.api.objects import Condition, Key, condition, is_true, unix
from cede.api.policy import ClusterPolicy
from cede.api.resources import FlavorResource, Quota, amount
from cede.api.workload_identity import identity, owner
from cede.api.workload_quota import assigned, has_quota, replaced_slice


@dataclass(frozen=True, slots=True)
class Team:
    """The quota of a team, by (instance type, resource); only accelerators and partitions."""

    # by the spec of its allocation
    owned: Quota = field(default_factory=Quota)
    # what its queue has now: less while nodes are down
    available: Quota = field(default_factory=Quota)
    lends: bool = True


@dataclass(frozen=True, slots=True)
class Holding:
    """A Workload that has not finished, and the quota that it has."""

    team: str
    namespace: str
    job: str
    # of the object that people call the job
    uid: str
    workload_uid: str
    priority_class: str
    # Unix seconds; 0.0 while it waits
    since: float
    pods: int
    # by (instance type, resource); empty while it waits
    amounts: Quota


@dataclass(frozen=True, slots=True)
class Picture:
    """The cluster at one moment."""

    # the accelerators and partitions of the policy's instance types: nothing else is counted
    kinds: frozenset[FlavorResource] = frozenset()
    # what all healthy nodes offer to jobs
    capacity: Quota = field(default_factory=Quota)
    teams: Mapping[str, Team] = field(default_factory=dict)
    # by team
    holdings: Mapping[str, tuple[Holding, ...]] = field(default_factory=dict)
    shares_unallocated: bool = True


class ReadWorkload(NamedTuple):
    workload: Workload
    holding: Holding | None
    # of a scale-up: the Workload that it replaces
    replaces: Key | None


class PictureReader:
    """Reads an object again only when it has changed, so that what stayed is the same object."""

    def __init__(self) -> None:
        # by uid
        self._workloads: dict[str, ReadWorkload] = {}
        # by team: as they came, and in their order
        self._holdings: dict[str, tuple[list[Holding], tuple[Holding, ...]]] = {}
        self._teams: dict[str, tuple[ComputeAllocation, frozenset[FlavorResource], Team]] = {}

    def read(
        self,
        policy: ClusterPolicy,
        allocations: Iterable[ComputeAllocation],
        workloads: Iterable[Workload],
    ) -> Picture:
        kinds = _kinds(policy)
        return Picture(
            kinds=kinds,
            capacity=_capacity(policy, kinds),
            teams=self._read_teams(allocations, kinds),
            holdings=self._read_holdings(workloads),
            shares_unallocated=policy.spec.shareUnallocated,
        )

    def _read_teams(
        self, allocations: Iterable[ComputeAllocation], kinds: frozenset[FlavorResource]
    ) -> dict[str, Team]:
        present = {}
        for allocation in allocations:
            name = allocation.metadata.name
            kept = self._teams.get(name)
            if kept and kept[0] is allocation and kept[1] == kinds:
                present[name] = kept
            else:
                present[name] = (allocation, kinds, read_team(allocation, kinds))
        self._teams = present
        return {name: team for name, (_, _, team) in present.items()}

    def _read_holdings(self, workloads: Iterable[Workload]) -> dict[str, tuple[Holding, ...]]:
        present = {}
        replaced = set()
        for workload in workloads:
            uid = workload.metadata.uid
            entry = self._workloads.get(uid)
            if entry is None or entry.workload is not workload:
                entry = ReadWorkload(workload, read_holding(workload), replaced_slice(workload))
            present[uid] = entry
            # for a moment both have quota
            if entry.replaces and entry.holding and entry.holding.amounts:
                replaced.add(entry.replaces)
        self._workloads = present
        by_team: dict[str, list[Holding]] = {}
        for workload, holding, _ in present.values():
            if holding and not (replaced and workload.metadata.key in replaced):
                by_team.setdefault(holding.team, []).append(holding)
        self._holdings = {
            team: self._in_order(team, holdings) for team, holdings in by_team.items()
        }
        return {team: ordered for team, (_, ordered) in self._holdings.items()}

    def _in_order(
        self, team: str, holdings: list[Holding]
    ) -> tuple[list[Holding], tuple[Holding, ...]]:
        old, old_ordered = self._holdings.get(team, ([], ()))
        if len(old) == len(holdings) and all(map(is_, old, holdings)):
            return old, old_ordered
        ordered = tuple(sorted(holdings, key=_age))
        is_same = len(old_ordered) == len(ordered) and all(map(is_, old_ordered, ordered))
        return holdings, old_ordered if is_same else ordered


def _age(holding: Holding) -> tuple[bool, float, str]:
    """Those with quota first, the oldest before the others."""
    return (not holding.amounts, holding.since, holding.workload_uid)


def _kinds(policy: ClusterPolicy) -> frozenset[FlavorResource]:
    return frozenset(
        (type_.name, resource)
        for type_ in policy.spec.instanceTypes
        for resource in (type_.accelerator, *type_.partitions)
    )


def _capacity(policy: ClusterPolicy, kinds: frozenset[FlavorResource]) -> Quota:
    return Quota(
        {
            (type_.name, resource): amount(resource, value)
            for type_ in policy.status.instanceTypes
            for resource, value in type_.healthy.items()
            if (type_.name, resource) in kinds
        }
    )


def read_team(allocation: ComputeAllocation, kinds: frozenset[FlavorResource]) -> Team:
    owned = Quota()
    available = Quota()
    for entry in allocation.status.quotas:
        for type_name, resource in kinds:
            if type_name == entry.instanceType:
                key = (type_name, resource)
                owned[key] = amount(resource, entry.nominal.get(resource, 0))
                available[key] = amount(resource, entry.healthy.get(resource, 0))
    # without the zeros
    return Team(+owned, +available, allocation.spec.sharing.strategy != "DontLend")


def read_holding(workload: Workload) -> Holding | None:
    """None if it has finished, or belongs to a guard."""
    metadata = workload.metadata
    if is_true(workload.status.conditions, names.FINISHED):
        return None
    if metadata.namespace == names.GUARD_NAMESPACE:
        return None
    pods = 0
    amounts = Quota()
    since = 0.0
    admission = workload.status.admission
    # Kueue: pkg/workload/workload.go, HasActiveQuotaReservation
    if admission and has_quota(workload) and workload.spec.active:
        pods, usage = assigned(workload)
        amounts = Quota({key: value for key, value in usage.items() if _may_count(key, value)})
        reserved = condition(workload.status.conditions, names.QUOTA_RESERVED) or Condition()
        since = unix(reserved.lastTransitionTime)
    job = owner(workload)
    priority_class = workload.spec.priorityClassRef
    return Holding(
        team=admission.clusterQueue if admission else "",
        namespace=metadata.namespace,
        job=job.name if job else metadata.name,
        uid=identity(workload),
        workload_uid=metadata.uid,
        priority_class=priority_class.name if priority_class else "",
        since=since,
        pods=pods,
        amounts=amounts,
    )


def _may_count(key: FlavorResource, value: int) -> bool:
    """Accelerators are extended resources, whose names have a domain."""
    return value > 0 and "/" in key[1]
