"""PURE. The arithmetic of quota: what nodes hold, what an allocation is worth, who gets less."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cede.api.allocation import AllocationSpec, TypeQuota
from cede.api.kueue import Node
from cede.api.objects import is_true
from cede.api.pods import DaemonSet, daemon_requests
from cede.api.policy import InstanceType
from cede.api.resources import Quota, Resources, amount


@dataclass(frozen=True)
class Supply:
    """What there is of one instance type.

    Every healthy node counts as the smallest whole one, and what is left over in a larger one is
    not given out. So where no
    accelerator is lost, as many whole-node pods fit the nodes as fit the quota, and of pods that
    take one accelerator, or one
    kind of partition, and its share of a node always as many. Nodes partitioned differently add
    what each of them offers.
    """

    type: InstanceType
    # what jobs can have of any whole node
    whole: Resources
    # the most that one node of the type has for jobs, by resource
    largest: Resources
    # accelerators and partitions of a whole node in one unit (`slices`), whatever its layout
    whole_slices: int = 0
    nodes: int = 0
    healthy_nodes: int = 0
    # of the healthy nodes together
    healthy: Resources = field(default_factory=Resources)
    # healthy nodes that offer fewer accelerators or slices than a whole one
    damaged: tuple[str, ...] = ()
    # healthy nodes that offer as many, partitioned otherwise than `whole`
    otherwise: tuple[str, ...] = ()

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """What quota of this type is counted in."""
        return counted(self.type)

    @property
    def promised(self) -> bool:
        """No node of the type exists: its figures are the policy's word."""
        return not self.nodes


def counted(type_: InstanceType) -> tuple[str, ...]:
    """Accelerators, their partitions, CPU and memory."""
    return (
        type_.accelerator,
        *sorted(type_.partitions.keys() - {type_.accelerator}),
        "cpu",
        "memory",
    )


def is_healthy(node: Node) -> bool:
    """Whether work can be placed there: Ready, not cordoned, not being deleted."""
    ready = is_true(node.status.conditions, "Ready")
    return ready and not node.spec.unschedulable and not node.metadata.deletionTimestamp


def supplies(
    types: Iterable[InstanceType], nodes: Iterable[Node], daemons: Iterable[DaemonSet] = ()
) -> dict[str, Supply]:
    """What there is of each type. A node that two types select counts for the first, so nothing is
    given twice."""
    types = list(types)
    daemons = tuple(daemons)
    found: dict[str, list[Node]] = {type_.name: [] for type_ in types}
    for node in nodes:
        labels = node.metadata.labels.items()
        if mine := next((type_ for type_ in types if type_.selector.items() <= labels), None):
            found[mine.name].append(node)
    return {type_.name: _supply(type_, found[type_.name], daemons) for type_ in types}


def _supply(type_: InstanceType, nodes: list[Node], daemons: tuple[DaemonSet, ...]) -> Supply:
    if not nodes:
        declared: dict[str, str | int] = {
            **type_.partitions,
            type_.accelerator: type_.accelerators,
            "cpu": type_.cpu,
            "memory": type_.memory,
        }
        whole = Counter({name: amount(name, declared[name]) for name in counted(type_)})
        return Supply(type_, whole, whole, slices(type_, whole))
    each = [(node, _for_jobs(type_, node, daemons)) for node in nodes]
    # A node that has lost an accelerator, or whose device plugin is not up yet, does not make every
    # node worth less.
    most = max(slices(type_, holds) for _, holds in each)
    complete = [holds for _, holds in each if slices(type_, holds) == most]
    layout = _usual(type_, (_layout(holds) for holds in complete))
    whole = Counter(
        {
            **dict(layout),
            **{name: min(holds[name] for holds in complete) for name in ("cpu", "memory")},
        }
    )
    healthy = [_counts(type_, holds, whole, most) for node, holds in each if is_healthy(node)]
    return Supply(
        type_,
        whole,
        Counter({name: max(holds[name] for _, holds in each) for name in whole}),
        most,
        len(nodes),
        len(healthy),
        healthy=Counter({name: sum(holds[name] for holds in healthy) for name in whole}),
        damaged=_names(node for node, holds in each if slices(type_, holds) < most),
        otherwise=_names(
            node
            for node, holds in each
            if slices(type_, holds) == most and _layout(holds) != layout
        ),
    )


def _layout(holds: Resources) -> tuple[tuple[str, int], ...]:
    """Its accelerators and partitions, in the order of `counted`."""
    return tuple((name, value) for name, value in holds.items() if name not in ("cpu", "memory"))


def _names(nodes: Iterable[Node]) -> tuple[str, ...]:
    return tuple(sorted(node.metadata.name for node in nodes if is_healthy(node)))


def _usual(
    type_: InstanceType, layouts: Iterable[tuple[tuple[str, int], ...]]
) -> tuple[tuple[str, int], ...]:
    """What a whole node of the type offers: as the policy declares it, if a node does; else with
    whole accelerators, if it declares
    some; else what most nodes have. So a node that is partitioned anew does not change what `count`
    means."""
    declared = {**type_.partitions, type_.accelerator: type_.accelerators}
    found = Counter(layouts)

    def rank(layout: tuple[tuple[str, int], ...]) -> tuple[bool, bool, int, list[int]]:
        uncut = type_.accelerators > 0 and dict(layout)[type_.accelerator] > 0
        return dict(layout) == declared, uncut, found[layout], [value for _, value in layout]

    return max(found, key=rank)


def _counts(type_: InstanceType, holds: Resources, whole: Resources, most: int) -> Resources:
    """What a node adds to quota: the CPU and memory of the smallest whole one, and its own
    accelerators and partitions.

    Having lost accelerators, it adds the same part of everything: the least of what is left of its
    accelerators, CPU and
    memory, so that no quota comes from what a pod could not have together. `most`: the slices of a
    whole node.
    """
    if not most:
        return whole
    left = slices(type_, holds)
    part = min(
        [left, *(holds[name] * most // whole[name] for name in ("cpu", "memory") if whole[name])]
    )
    return Counter(
        {
            name: value * part // most
            if name in ("cpu", "memory")
            else holds[name] * part // left
            if left
            else 0
            for name, value in whole.items()
        }
    )


def _for_jobs(type_: InstanceType, node: Node, daemons: tuple[DaemonSet, ...]) -> Resources:
    """What the node can give to jobs: its allocatable amounts less what DaemonSets take there;
    never below zero."""
    taken = daemon_requests(daemons, node)
    return Counter(
        {
            name: max(0, amount(name, node.status.allocatable.get(name, 0)) - taken[name])
            for name in counted(type_)
        }
    )


_MIG = re.compile(r"nvidia\.com/mig-([1-7])g\.")


def slices(type_: InstanceType, holds: Mapping[str, int]) -> int:
    """Accelerators and partitions in one unit, to set CPU and memory in proportion to.

    Where a type has MIG partitions the unit is NVIDIA's compute slice: `mig-<n>g.…` has n, a whole
    accelerator 7 (NVIDIA, MIG
    user guide, "Profiles"). Of other makers every partition counts 1, and as many make an
    accelerator as the type says.
    """
    mig = any(_MIG.match(name) for name in type_.partitions)
    total = holds.get(type_.accelerator, 0) * (7 if mig else 1)
    for name in type_.partitions.keys() - {type_.accelerator}:
        found = _MIG.match(name)
        total += holds.get(name, 0) * (int(found[1]) if found else 1)
    return total


def worth(quota: TypeQuota, supply: Supply) -> Resources:
    """What is owned by this entry: whole nodes, or the amounts said and the others by ratio,
    rounded down.

    CPU and memory follow accelerators and partitions; without those, each follows the other.
    Accelerators follow nothing.
    """
    whole = supply.whole
    if quota.count is not None:
        return Counter({name: whole[name] * quota.count for name in supply.resources})
    known: dict[str, int] = {
        name: count for name, count in (quota.partitions or {}).items() if name in supply.resources
    }
    if quota.accelerators is not None:
        known[supply.type.accelerator] = quota.accelerators
    has_accelerators = bool(known)
    known |= {
        name: amount(name, text)
        for name, text in (("cpu", quota.cpu), ("memory", quota.memory))
        if text is not None
    }
    if has_accelerators:
        part = slices(supply.type, known)
        of = supply.whole_slices
    else:
        base = "cpu" if "cpu" in known else "memory"
        part = known.get(base, 0)
        of = whole[base]
    follows = {name: whole[name] * part // of if of else 0 for name in ("cpu", "memory")}
    return Counter({name: known.get(name, follows.get(name, 0)) for name in supply.resources})


def owned(spec: AllocationSpec, supply: Mapping[str, Supply]) -> Quota:
    """What an allocation owns on paper, by (instance type, resource); types unknown to the policy
    are left out."""
    return _quota(spec.quotas, supply)


def _quota(entries: Iterable[TypeQuota], supply: Mapping[str, Supply]) -> Quota:
    out = Quota()
    for entry in entries:
        if here := supply.get(entry.instanceType):
            out.update(
                {
                    (entry.instanceType, name): value
                    for name, value in worth(entry, here).items()
                    if value
                }
            )
    return out


def divided(wishes: Mapping[str, int], available: int) -> dict[str, int]:
    """Each wish when all fit; else in proportion, in whole units, the largest remainders (then
    names) first."""
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
    """Quotas that never promise more than healthy nodes hold: unallocated capacity goes first, then
    all in proportion.

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


def borrowing_limits(
    spec: AllocationSpec, owns: Quota, supply: Mapping[str, Supply]
) -> Quota | None:
    """The most that may be borrowed by (instance type, resource); what is absent is 0. None: no
    limit."""
    sharing = spec.sharing
    if sharing.strategy != "LendAndBorrow":
        return Quota()
    if sharing.borrowLimitPercent is not None:
        return Counter(
            {key: value * sharing.borrowLimitPercent // 100 for key, value in owns.items()}
        )
    if sharing.borrowLimits:
        return _quota(sharing.borrowLimits, supply)
    return None
