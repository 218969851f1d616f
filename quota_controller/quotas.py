"""PURE. The arithmetic of quota: what nodes hold, what an allocation is worth, who gets less, who lends."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cede.api.allocation import AllocationSpec, TypeQuota
from cede.api.kueue import Node
from cede.api.objects import is_true
from cede.api.policy import InstanceType
from cede.api.resources import Quota, Resources, amount


@dataclass(frozen=True)
class Supply:
    """What there is of one instance type."""

    type: InstanceType
    whole: Resources  # what jobs can have of a whole node
    nodes: int = 0
    healthy_nodes: int = 0
    healthy: Resources = field(default_factory=Resources)  # of the healthy nodes together

    @property
    def resources(self) -> tuple[str, ...]:
        """What quota of this type is counted in."""
        return self.type.accelerator, "cpu", "memory"

    @property
    def promised(self) -> bool:
        """No node of the type exists: its figures are the policy's word."""
        return not self.nodes


def is_healthy(node: Node) -> bool:
    """Whether work can be placed there: Ready, not cordoned, not being deleted."""
    ready = is_true(node.status.conditions, "Ready")
    return ready and not node.spec.unschedulable and not node.metadata.deletionTimestamp


def supplies(types: Iterable[InstanceType], nodes: Iterable[Node]) -> dict[str, Supply]:
    """What there is of each type. A node that two types select counts for the first, so nothing is given twice."""
    types = list(types)
    found: dict[str, list[Node]] = {type_.name: [] for type_ in types}
    for node in nodes:
        labels = node.metadata.labels.items()
        if mine := next((type_ for type_ in types if type_.selector.items() <= labels), None):
            found[mine.name].append(node)
    return {type_.name: _supply(type_, found[type_.name]) for type_ in types}


def _supply(type_: InstanceType, nodes: list[Node]) -> Supply:
    if not nodes:
        declared: dict[str, str | int] = {
            type_.accelerator: type_.accelerators,
            "cpu": type_.cpu,
            "memory": type_.memory,
        }
        return Supply(type_, Counter({name: amount(name, text) for name, text in declared.items()}))
    each = [(node, _allocatable(type_, node)) for node in nodes]
    # A node that has lost an accelerator, or whose device plugin is not up yet, does not make every node worth less.
    most = max(holds[type_.accelerator] for _, holds in each)
    complete = [holds for _, holds in each if holds[type_.accelerator] == most]
    whole = Counter({name: min(holds[name] for holds in complete) for name in complete[0]})
    healthy = [holds for node, holds in each if is_healthy(node)]
    return Supply(type_, whole, len(nodes), len(healthy), sum(healthy, Counter()))


def _allocatable(type_: InstanceType, node: Node) -> Resources:
    names = (type_.accelerator, "cpu", "memory")
    return Counter({name: amount(name, node.status.allocatable.get(name, 0)) for name in names})


def worth(quota: TypeQuota, supply: Supply) -> Resources:
    """What is owned by this entry: whole nodes, or the amounts said and the others by ratio, rounded down."""
    accelerator, whole = supply.type.accelerator, supply.whole
    if quota.count is not None:
        return Counter({name: whole[name] * quota.count for name in supply.resources})
    said = {accelerator: quota.accelerators, "cpu": quota.cpu, "memory": quota.memory}
    known = {name: amount(name, text) for name, text in said.items() if text is not None}
    base = next((name for name in supply.resources if name in known), "")
    out = Resources()
    for name in supply.resources:
        if name in known:
            out[name] = known[name]
        elif name != accelerator and whole[base]:
            out[name] = whole[name] * known[base] // whole[base]
        else:
            out[name] = 0
    return out


def owned(spec: AllocationSpec, supply: Mapping[str, Supply]) -> Quota:
    """What an allocation owns on paper, by (instance type, resource); types unknown to the policy are left out."""
    return _quota(spec.quotas, supply)


def _quota(entries: Iterable[TypeQuota], supply: Mapping[str, Supply]) -> Quota:
    out = Quota()
    for entry in entries:
        if here := supply.get(entry.instanceType):
            out |= Counter({(entry.instanceType, name): value for name, value in worth(entry, here).items()})
    return out


def divided(wishes: Mapping[str, int], available: int) -> dict[str, int]:
    """Each wish when all fit; else in proportion, in whole units, the largest remainders (then names) first."""
    total = sum(wishes.values())
    if total <= available:
        return dict(wishes)
    out = {name: wish * available // total for name, wish in wishes.items()}
    rest = available - sum(out.values())
    for name in sorted(wishes, key=lambda n: (-(wishes[n] * available % total), n))[:rest]:
        out[name] += 1
    return out


@dataclass(frozen=True)
class Shares:
    """What each allocation's queue may promise now, and what is healthy and in no allocation."""

    granted: dict[str, Quota]
    unallocated: Quota


def shared_out(owners: Mapping[str, Quota], supply: Mapping[str, Supply]) -> Shares:
    """Quotas that never promise more than healthy nodes hold: unallocated capacity goes first, then all in proportion.

    Of a type without nodes the policy's word is taken, and nothing of it is unallocated.
    """
    granted: dict[str, Quota] = {name: Quota() for name in owners}
    unallocated = Quota()
    for flavor, here in supply.items():
        for resource in here.resources:
            key = (flavor, resource)
            wishes = {name: quota[key] for name, quota in owners.items()}
            available = sum(wishes.values()) if here.promised else here.healthy[resource]
            gets = divided(wishes, available)
            for name, value in gets.items():
                granted[name][key] = value
            unallocated[key] = available - sum(gets.values())
    return Shares(granted, unallocated)


def borrowing_limits(spec: AllocationSpec, owns: Quota, supply: Mapping[str, Supply]) -> Quota | None:
    """The most that may be borrowed by (instance type, resource); what is absent is 0. None: no limit."""
    sharing = spec.sharing
    if sharing.strategy != "LendAndBorrow":
        return Quota()
    if sharing.borrowLimitPercent is not None:
        return Counter({key: value * sharing.borrowLimitPercent // 100 for key, value in owns.items()})
    if sharing.borrowLimits:
        return _quota(sharing.borrowLimits, supply)
    return None


def lent(idle: Mapping[str, Quota], borrowed: Quota, unallocated: Quota) -> dict[str, Quota]:
    """Who lends what is borrowed: unallocated capacity first, then those with idle quota, in proportion to it.

    Kueue keeps one pool and no names; this is the account we give of it. `idle` holds lenders only.
    """
    out: dict[str, Quota] = {name: Quota() for name in idle}
    for key, amount_ in (borrowed - unallocated).items():
        lenders = {name: quota[key] for name, quota in idle.items() if quota[key] > 0}
        for name, value in divided(lenders, amount_).items():
            if value:
                out[name][key] = value
    return out
