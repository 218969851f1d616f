"""PURE. What is free on the nodes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from cede.api import names
from cede.api.kueue import Node
from cede.api.objects import is_true
from cede.api.resources import Resources, parse
from scheduler.snapshot.memory import Kept
from scheduler.snapshot.pod_index import PodIndex


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """A node that is Ready and schedulable."""

    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    # allocatable minus the requests of its pods; below zero if they exceed what is allocatable
    free: Resources = field(default_factory=Resources)


def read_nodes(
    nodes: Iterable[Node], pods: PodIndex, kept: Kept[str, NodeRoom | None]
) -> Iterator[NodeRoom]:
    """The nodes that are Ready and schedulable, with what is free on each."""
    for node in nodes:
        name = node.metadata.name
        room = kept.get(name, _read_node, node, pods.requested(name))
        if room is not None:
            yield room


def _read_node(node: Node, requested: Mapping[str, int]) -> NodeRoom | None:
    if node.spec.unschedulable or not is_true(node.status.conditions, names.READY):
        return None
    free = parse(node.status.allocatable)
    free.subtract(requested)
    return NodeRoom(node.metadata.name, node.metadata.labels, free)
