"""PURE. How many more pods of a job the nodes of its own flavors hold."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cede.api.instance_type import InstanceType
from cede.api.resources import Quota, Resources
from scheduler.snapshot.free_capacity import NodeRoom


class _Shape(NamedTuple):
    """What decides where a pod fits."""

    # resource → amount, above 0
    requested: tuple[tuple[str, int], ...]
    flavors: tuple[str, ...]


class Placement:
    """Counts the pods that fit. It counts each shape of pod only once."""

    def __init__(self, nodes: Iterable[NodeRoom], instance_types: Iterable[InstanceType]) -> None:
        self._nodes = tuple(nodes)
        # the quota_controller names a flavor as its instance type
        self._selectors = {type_.name: type_.selector for type_ in instance_types}
        self._pods = dict[_Shape, int]()

    def count_pods(self, per_pod: Quota) -> int:
        """How many more pods that use `per_pod` fit.

        Kueue gives pods the node labels of all their flavors as a node selector, and keeps a
        growing job on the flavors that it has. A pod that requests nothing fits nowhere.
        """
        shape = _shape(per_pod)
        if shape not in self._pods:
            selector = self._selector(shape)
            rooms = (node.free for node in self._nodes if selector <= node.labels.items())
            self._pods[shape] = sum(_pods_on_node(free, shape) for free in rooms)
        return self._pods[shape]

    def _selector(self, shape: _Shape) -> set[tuple[str, str]]:
        """The labels of the nodes; none for flavors that the policy does not have."""
        labels: list[Mapping[str, str]] = [self._selectors.get(name, {}) for name in shape.flavors]
        return {item for selector in labels for item in selector.items()}


def _shape(per_pod: Quota) -> _Shape:
    """A resource of two flavors counts once, with its largest amount."""
    requested = Resources()
    for (_, resource), amount in per_pod.items():
        requested[resource] = max(requested[resource], amount)
    return _Shape(
        requested=tuple(sorted((name, amount) for name, amount in requested.items() if amount > 0)),
        flavors=tuple(sorted({flavor for (flavor, _), amount in per_pod.items() if amount > 0})),
    )


def _pods_on_node(free: Resources, shape: _Shape) -> int:
    counts = [max(0, free[resource]) // amount for resource, amount in shape.requested]
    return min(counts, default=0)
