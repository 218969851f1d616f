"""PURE. What is free on the nodes."""

from collections import defaultdict
from collections.abc import Iterable

from cede.api import names
from cede.api.kueue import Node, Pod
from cede.api.objects import is_true
from cede.api.pods import pod_requests
from cede.api.resources import Resources, parse


def free_per_node(nodes: Iterable[Node], pods: Iterable[Pod]) -> tuple[Resources, ...]:
    """Allocatable minus the requests of the node's pods, for each node that is Ready and
    schedulable. Below zero if the requests exceed what is allocatable."""
    requested: dict[str, Resources] = defaultdict(Resources)
    for pod in pods:
        if pod.spec.nodeName and pod.status.phase in ("Pending", "Running"):
            requested[pod.spec.nodeName] += pod_requests(pod.spec)
    return tuple(
        _free(node, requested[node.metadata.name])
        for node in nodes
        if not node.spec.unschedulable and is_true(node.status.conditions, names.READY)
    )


def _free(node: Node, requested: Resources) -> Resources:
    free = parse(node.status.allocatable)
    free.subtract(requested)
    return free
