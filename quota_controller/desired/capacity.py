"""PURE. The capacity of an instance type: what jobs can get of its nodes."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cede.api.instance_type import InstanceType
from cede.api.kueue import Node
from cede.api.objects import is_true
from cede.api.pods import DaemonSet, daemon_requests
from cede.api.resources import Resources, amount

CPU_AND_MEMORY = ("cpu", "memory")
_MIG_RESOURCE = re.compile(r"nvidia\.com/mig-([1-7])g\.")
_MIG_SLICES_PER_ACCELERATOR = 7

Layout = tuple[tuple[str, int], ...]
"""(resource, count) of a node's accelerators and partitions, ordered as `counted_resources`."""


@dataclass(frozen=True)
class Capacity:
    """What the nodes of one instance type offer to jobs.

    Quota counts every healthy node as the smallest complete one; what a larger node has beyond
    that is in no quota. As long as no accelerator is lost, the nodes can therefore run as many
    whole-node pods as the quota allows. Pods that take one accelerator, or partitions of one kind,
    and their share of a node always fit. A node with another layout of partitions adds the
    partitions that it offers.
    """

    type: InstanceType
    # what jobs can get of every complete node
    whole_node: Resources
    # the most of each resource that one node offers
    largest_node: Resources
    # accelerators and partitions of a complete node in the unit of `slices`, in any layout
    whole_node_slices: int = 0
    nodes: int = 0
    healthy_nodes: int = 0
    # sum over the healthy nodes
    healthy: Resources = field(default_factory=Resources)
    # sum over all nodes, also those that are down
    installed: Resources = field(default_factory=Resources)
    # names of healthy nodes that offer fewer slices than a complete one
    degraded: tuple[str, ...] = ()
    # names of healthy nodes that offer all slices in another layout than `whole_node`
    other_layout: tuple[str, ...] = ()

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """The resources that quota of this type is counted in."""
        return counted_resources(self.type)

    @property
    def declared_only(self) -> bool:
        """Whether no node of the type exists: the figures are those of the policy."""
        return not self.nodes


@dataclass(frozen=True)
class _NodeOffer:
    """What one node offers to jobs."""

    name: str
    is_healthy: bool
    resources: Resources
    slices: int

    @property
    def layout(self) -> Layout:
        return tuple(
            (name, value) for name, value in self.resources.items() if name not in CPU_AND_MEMORY
        )


def counted_resources(type_: InstanceType) -> tuple[str, ...]:
    """Accelerators, their partitions, CPU and memory."""
    partitions = sorted(type_.partitions.keys() - {type_.accelerator})
    return (type_.accelerator, *partitions, *CPU_AND_MEMORY)


def is_healthy(node: Node) -> bool:
    """Whether pods can be placed on the node: Ready, not cordoned, not being deleted."""
    ready = is_true(node.status.conditions, "Ready")
    return ready and not node.spec.unschedulable and not node.metadata.deletionTimestamp


def capacities(
    types: Iterable[InstanceType], nodes: Iterable[Node], daemon_sets: Iterable[DaemonSet] = ()
) -> dict[str, Capacity]:
    """The capacity of each type, by name.

    A node that two types select counts for the first one only, so nothing is counted twice.
    """
    types = list(types)
    daemon_sets = tuple(daemon_sets)
    nodes_of: dict[str, list[Node]] = {type_.name: [] for type_ in types}
    for node in nodes:
        labels = node.metadata.labels.items()
        type_of_node = next((type_ for type_ in types if type_.selector.items() <= labels), None)
        if type_of_node:
            nodes_of[type_of_node.name].append(node)
    return {type_.name: _capacity(type_, nodes_of[type_.name], daemon_sets) for type_ in types}


def _capacity(
    type_: InstanceType, nodes: Sequence[Node], daemon_sets: tuple[DaemonSet, ...]
) -> Capacity:
    if not nodes:
        return declared_capacity(type_)
    return measured_capacity(type_, [_offer(type_, node, daemon_sets) for node in nodes])


def declared_capacity(type_: InstanceType) -> Capacity:
    """The capacity of a type without nodes: a whole node as the policy declares it, none of them
    healthy."""
    declared: dict[str, str | int] = {
        **type_.partitions,
        type_.accelerator: type_.accelerators,
        "cpu": type_.cpu,
        "memory": type_.memory,
    }
    whole_node = Counter({name: amount(name, declared[name]) for name in counted_resources(type_)})
    return Capacity(type_, whole_node, whole_node, slices(type_, whole_node))


def measured_capacity(type_: InstanceType, offers: Sequence[_NodeOffer]) -> Capacity:
    """The capacity of a type by its live nodes, of which there is at least one."""
    # A node that has lost an accelerator, or whose device plugin is not up yet, must not reduce
    # what a whole node is worth. So only the nodes with the most slices define it.
    whole_node_slices = max(offer.slices for offer in offers)
    complete = [offer for offer in offers if offer.slices == whole_node_slices]
    layout = _usual_layout(type_, [offer.layout for offer in complete])
    whole_node = Counter(dict(layout))
    for name in CPU_AND_MEMORY:
        whole_node[name] = min(offer.resources[name] for offer in complete)
    largest_node = Counter[str]()
    for name in whole_node:
        largest_node[name] = max(offer.resources[name] for offer in offers)
    healthy_offers = [offer for offer in offers if offer.is_healthy]
    healthy = Counter(dict.fromkeys(whole_node, 0))
    installed = Counter(healthy)
    for offer in offers:
        contribution = _contribution(offer, whole_node, whole_node_slices)
        installed.update(contribution)
        if offer.is_healthy:
            healthy.update(contribution)
    return Capacity(
        type_,
        whole_node,
        largest_node,
        whole_node_slices,
        len(offers),
        len(healthy_offers),
        healthy,
        installed,
        degraded=_names(offer for offer in healthy_offers if offer.slices < whole_node_slices),
        other_layout=_names(
            offer
            for offer in healthy_offers
            if offer.slices == whole_node_slices and offer.layout != layout
        ),
    )


def _offer(type_: InstanceType, node: Node, daemon_sets: tuple[DaemonSet, ...]) -> _NodeOffer:
    """The node's allocatable amounts minus the requests of its DaemonSets, at least zero."""
    taken = daemon_requests(daemon_sets, node)
    resources = Resources()
    for name in counted_resources(type_):
        allocatable = amount(name, node.status.allocatable.get(name, 0))
        resources[name] = max(0, allocatable - taken[name])
    return _NodeOffer(node.metadata.name, is_healthy(node), resources, slices(type_, resources))


def _names(offers: Iterable[_NodeOffer]) -> tuple[str, ...]:
    return tuple(sorted(offer.name for offer in offers))


def _usual_layout(type_: InstanceType, layouts: Sequence[Layout]) -> Layout:
    """The layout that defines a whole node, so that `count: 1` keeps its meaning when a node is
    partitioned differently.

    The layout that the policy declares comes first, then one with whole accelerators if the policy
    declares some, then the most frequent one.
    """
    declared = {**type_.partitions, type_.accelerator: type_.accelerators}
    frequency = Counter(layouts)

    def rank(layout: Layout) -> tuple[bool, bool, int, list[int]]:
        counts = dict(layout)
        has_accelerators = type_.accelerators > 0 and counts[type_.accelerator] > 0
        return counts == declared, has_accelerators, frequency[layout], list(counts.values())

    return max(frequency, key=rank)


def _contribution(offer: _NodeOffer, whole_node: Resources, whole_node_slices: int) -> Resources:
    """What one node adds to the capacity of its type.

    A complete node adds the CPU and memory of the smallest complete one, and its own accelerators
    and partitions. A degraded node adds the same fraction of everything: the smallest fraction
    that is left of its accelerators, CPU and memory. Its quota then never has more of one resource
    than a pod could use together with the others.
    """
    if not whole_node_slices:
        return whole_node
    usable_slices = offer.slices
    for name in CPU_AND_MEMORY:
        if whole_node[name]:
            proportional = offer.resources[name] * whole_node_slices // whole_node[name]
            usable_slices = min(usable_slices, proportional)
    contribution = Resources()
    for name, amount_ in whole_node.items():
        if name in CPU_AND_MEMORY:
            contribution[name] = amount_ * usable_slices // whole_node_slices
        elif offer.slices:
            contribution[name] = offer.resources[name] * usable_slices // offer.slices
    return contribution


def slices(type_: InstanceType, counts: Mapping[str, int]) -> int:
    """Accelerators and partitions in one unit, which CPU and memory are divided in proportion to.

    If the type has MIG partitions, the unit is NVIDIA's compute slice: `mig-<n>g.…` has n, a whole
    accelerator has 7 (NVIDIA MIG User Guide, "MIG Device Profiles"). Every partition of another
    vendor, and every accelerator beside one, counts 1.
    """
    has_mig = any(_MIG_RESOURCE.match(name) for name in type_.partitions)
    per_accelerator = _MIG_SLICES_PER_ACCELERATOR if has_mig else 1
    total = counts.get(type_.accelerator, 0) * per_accelerator
    for name in type_.partitions.keys() - {type_.accelerator}:
        mig = _MIG_RESOURCE.match(name)
        per_partition = int(mig[1]) if mig else 1
        total += counts.get(name, 0) * per_partition
    return total
