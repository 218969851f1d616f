"""PURE. Whether the pods of a preemptor find room on the nodes.

Quota counts accelerators in the whole cluster. A pod of eight accelerators needs them on one node.
"""

from collections import Counter, defaultdict
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from cede.api.instance_type import InstanceType
from cede.api.resources import FlavorResource, Resources
from scheduler.preemption.preemptors import Preemptor
from scheduler.snapshot.free_capacity import NodeRoom
from scheduler.snapshot.workloads import AdmittedWorkload


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that are alike, and what each needs of a node: only resources that quota counts."""

    count: int
    per_pod: Mapping[str, int]


class Seats:
    """The free room on the nodes, which `release` enlarges. Room for pods that are all alike is
    counted along; several kinds of pods are seated anew, the largest first."""

    def __init__(self, groups: Sequence[Group], nodes: Iterable[NodeRoom]) -> None:
        self.groups = sorted(groups, key=lambda group: sorted(group.per_pod.values()), reverse=True)
        # of the nodes' own room, none is changed in place
        self._free = {node.name: node.free for node in nodes}
        self._seats = sum(_seats(free, self.groups[0]) for free in self._free.values())

    def copy(self) -> "Seats":
        """As they are now. Changes of one are none of the other."""
        twin = copy(self)
        twin._free = dict(self._free)
        return twin

    def release(self, node: str, amounts: Mapping[str, int], sign: int = 1) -> None:
        """Pods with these requests leave the node; with the sign -1, they come back."""
        free = self._free.get(node)
        if free is None:
            return
        left = Resources(free)
        for resource, amount in amounts.items():
            left[resource] += amount * sign
        self._free[node] = left
        self._seats += _seats(left, self.groups[0]) - _seats(free, self.groups[0])

    def gain(self, node: str, amounts: Mapping[str, int]) -> int:
        """How many more of the largest pods the node would have room for."""
        free = self._free.get(node)
        if free is None:
            return 0
        group = self.groups[0]
        return _seats(Resources(free + Resources(amounts)), group) - _seats(free, group)

    @property
    def lacking(self) -> int:
        """How many of the largest pods have no room."""
        return max(0, self.groups[0].count - self._seats)

    @property
    def are_enough(self) -> bool:
        if self._seats < self.groups[0].count:
            return False
        return len(self.groups) == 1 or self._all_fit()

    def _all_fit(self) -> bool:
        rooms = [Resources(free) for free in self._free.values()]
        for group in self.groups:
            left = group.count
            for room in rooms:
                pods = min(left, _seats(room, group))
                for resource, amount in group.per_pod.items():
                    room[resource] -= amount * pods
                left -= pods
            if left:
                return False
        return True


def _seats(free: Resources, group: Group) -> int:
    counts = [max(0, free[resource]) // amount for resource, amount in group.per_pod.items()]
    return min(counts)


def make_seats(
    preemptor: Preemptor, nodes: Sequence[NodeRoom], instance_types: Iterable[InstanceType]
) -> Seats | None:
    """On the nodes of the flavors that the preemptor would get. None if pods or nodes are not
    known, or the pods need nothing that quota counts."""
    groups = list(_groups(preemptor))
    if not groups or not nodes:
        return None
    flavors = {flavor for flavor, _ in preemptor.request}
    # the quota_controller names a flavor as its instance type
    labels = [type_.selector.items() for type_ in instance_types if type_.name in flavors]
    return Seats(groups, [node for node in nodes if _has_any(labels, node.labels)])


def _has_any(choices: Sequence[ItemsView[str, str]], labels: Mapping[str, str]) -> bool:
    """True also if there is no choice: a flavor that the policy does not have."""
    return not choices or any(choice <= labels.items() for choice in choices)


def _groups(preemptor: Preemptor) -> Iterator[Group]:
    requested = Counter[str]()
    for (_, resource), amount in preemptor.request.items():
        requested[resource] += amount
    for pods in preemptor.workload.pod_sets:
        needs = {
            resource: amount
            for resource, amount in pods.per_pod.items()
            if amount > 0 and requested[resource]
        }
        # a job that grows has most of its pods already
        counts = [-(-requested[resource] // amount) for resource, amount in needs.items()]
        count = min([pods.count, *counts])
        if needs and count:
            yield Group(count, needs)


# --- what jobs leave free -------------------------------------------------------------------------
def leaving(job: AdmittedWorkload, size: int) -> Mapping[str, Mapping[str, int]]:
    """By node: what the job leaves free on it when it has this size. The highest indexes leave; of
    pods without indexes nobody knows which, so only a stop counts.

    A stop leaves what its pods really request, which are not always alike. The pods of a job that
    shrinks are.
    """
    if size == 0:
        return job.requested_per_node
    pods = Counter(node for index, node in job.node_of_index.items() if index >= size)
    return {node: _of_pods(job, count) for node, count in pods.items()}


def _of_pods(job: AdmittedWorkload, count: int) -> dict[str, int]:
    return {resource: amount * count for (_, resource), amount in job.per_pod.items()}


def places_are_known(job: AdmittedWorkload, keys: Iterable[FlavorResource]) -> bool:
    """Whether the job's pods on nodes request all that it uses of these resources. They do not
    while a pod has no node."""
    used = Counter[str]()
    for key in keys:
        used[key[1]] += job.usage[key]
    return all(_on_nodes(job, resource) >= amount for resource, amount in used.items())


def _on_nodes(job: AdmittedWorkload, resource: str) -> int:
    return sum(requested.get(resource, 0) for requested in job.requested_per_node.values())


def jobs_on_useful_nodes(seats: Seats, jobs: Sequence[AdmittedWorkload]) -> list[AdmittedWorkload]:
    """The jobs that hold nodes on which pods of the preemptor would find room without them: for
    every node that is needed, those where the fewest accelerators stand in the way of a pod."""
    amounts = defaultdict[str, Counter[str]](Counter)
    for job in jobs:
        counted = {resource for _, resource in job.per_pod}
        for node, requested in job.requested_per_node.items():
            for resource in counted & requested.keys():
                amounts[node][resource] += requested[resource]
    gains = {node: seats.gain(node, leaves) for node, leaves in amounts.items()}
    useful = [node for node, gain in gains.items() if gain > 0]
    useful.sort(key=lambda node: (sum(amounts[node].values()) / gains[node], node))
    wanted = set[str]()
    lacking = seats.lacking
    for node in useful:
        if lacking > 0:
            wanted.add(node)
            lacking -= gains[node]
    return [job for job in jobs if not wanted.isdisjoint(job.requested_per_node)]
