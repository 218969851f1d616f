"""PURE. What is free on the nodes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

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


def read_nodes(nodes: Iterable[Node], pods: PodIndex, kept: Kept[NodeRoom]) -> Iterator[NodeRoom]:
    """The nodes that are Ready and schedulable, with what is free on each."""
    for node in nodes:
        if not node.spec.unschedulable and is_true(node.status.conditions, names.READY):
            requested = pods.requested(node.metadata.name)
            yield kept.get(node.metadata.name, (node, requested), partial(_room, node, requested))


def _room(node: Node, requested: Mapping[str, int]) -> NodeRoom:
    free = parse(node.status.allocatable)
    free.subtract(requested)
    return NodeRoom(node.metadata.name, node.metadata.labels, free)
