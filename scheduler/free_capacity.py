"""PURE. What is free on the nodes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cede.api import names
from cede.api.kueue import Node, Pod
from cede.api.objects import is_true
from cede.api.pods import pod_requests
from cede.api.resources import Resources, parse


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """A node that is Ready and schedulable."""

    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    # allocatable minus the requests of its pods; below zero if they exceed what is allocatable
    free: Resources = field(default_factory=Resources)


def read_nodes(nodes: Iterable[Node], pods: Iterable[Pod]) -> tuple[NodeRoom, ...]:
    """The nodes that are Ready and schedulable, with what is free on each."""
    requested: dict[str, Resources] = defaultdict(Resources)
    for pod in pods:
        if pod.spec.nodeName and pod.status.phase in ("Pending", "Running"):
            requested[pod.spec.nodeName] += pod_requests(pod.spec)
    return tuple(
        NodeRoom(
            name=node.metadata.name,
            labels=node.metadata.labels,
            free=_free(node, requested[node.metadata.name]),
        )
        for node in nodes
        if not node.spec.unschedulable and is_true(node.status.conditions, names.READY)
    )


def _free(node: Node, requested: Resources) -> Resources:
    free = parse(node.status.allocatable)
    free.subtract(requested)
    return free
