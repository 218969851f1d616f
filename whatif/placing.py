"""PURE. The pods of admitted Workloads on nodes. Which node Kubernetes would choose is not
predicted: the first that has room is as good as any."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from cede.api import names
from cede.api.kueue import Pod, PodSet, PodStatus, Workload
from cede.api.objects import Condition, Meta
from cede.api.pod_templates import PodSpec
from cede.api.pods import pod_requests
from cede.api.workload_identity import controller, identity
from scheduler.snapshot.free_capacity import NodeRoom
from whatif.world import World

ADDRESS = "0.0.0.0"  # noqa: S104
"""Of a pod that does not exist: nothing is sent to it."""
RUNNING = PodStatus("Running", ADDRESS, (Condition(names.READY, "True"),))
MAX_PODS = 150_000
"""As many as Kubernetes supports in one cluster. Pods that request nothing always find
room."""
UNPLACED = PodStatus("Pending", "", (Condition(names.POD_SCHEDULED, "False", "Unschedulable"),))


class Rooms:
    """What is free on the nodes. One pod after the other takes some."""

    def __init__(self, rooms: Sequence[NodeRoom]) -> None:
        self._rooms = sorted(rooms, key=lambda room: room.name)
        self._free = {room.name: room.free.copy() for room in rooms}

    def take(self, requested: Mapping[str, int], selector: Mapping[str, str]) -> str:
        """The first node that has room; empty if none has."""
        needed = {name: amount for name, amount in requested.items() if amount > 0}
        for room in self._rooms:
            free = self._free[room.name]
            if selector.items() <= room.labels.items() and all(
                free[name] >= amount for name, amount in needed.items()
            ):
                free.subtract(needed)
                return room.name
        return ""


def make_pods(world: World, workload: Workload) -> int:
    """Makes the pods that the Workload has quota for and that do not exist, up to MAX_PODS in the
    cluster. Returns how many of its pods find no node or were not made."""
    rooms = Rooms(world.snapshot().nodes)
    existing = {pod.metadata.labels.get(names.POD_INDEX, "") for pod in world.pods_of(workload)}
    pods = _missing(workload, existing)
    for pod in islice(pods, max(0, MAX_PODS - world.count_pods())):
        world.put_pod(_placed(pod, workload, rooms, world))
    not_made = 0
    if next(pods, None):
        requested = sum(pod_set.count for pod_set in workload.spec.podSets)
        not_made = max(1, requested - len(world.pods_of(workload)))
    return world.note_pods(workload, "WaitForStart", missing=not_made)


def move_pods(world: World, workload: Workload, pods: Iterable[Pod]) -> int:
    """These pods are made again on nodes that have room. Returns how many of the Workload's pods
    find none."""
    rooms = Rooms(world.snapshot().nodes)
    for pod in pods:
        again = replace(pod, spec=replace(pod.spec, nodeName=""))
        world.put_pod(_placed(again, workload, rooms, world))
    # Kueue: pkg/controller/jobframework/reconciler.go, generatePodsReadyCondition
    return world.note_pods(workload, "WaitForRecovery")


def _placed(pod: Pod, workload: Workload, rooms: Rooms, world: World) -> Pod:
    node = rooms.take(pod_requests(pod.spec), _selector(world, workload))
    spec = replace(pod.spec, nodeName=node)
    return replace(pod, spec=spec, status=RUNNING if node else UNPLACED)


def _selector(world: World, workload: Workload) -> Mapping[str, str]:
    """The node labels of all its flavors."""
    admission = workload.status.admission
    assignments = admission.podSetAssignments if admission else ()
    chosen = {flavor for assigned in assignments for flavor in assigned.flavors.values()}
    flavors = (f for f in world.rest.resource_flavors if f.metadata.name in chosen)
    return {name: value for flavor in flavors for name, value in flavor.spec.nodeLabels.items()}


def _missing(workload: Workload, existing: set[str]) -> Iterator[Pod]:
    """The pods of other kinds than Jobs have no index: all of them exist, or none."""
    pod_sets = workload.spec.podSets
    is_indexed = len(pod_sets) == 1
    if not is_indexed and existing:
        return
    for pod_set in pod_sets:
        for index in range(pod_set.count):
            text = str(index) if is_indexed else ""
            if text not in existing or not is_indexed:
                yield _pod(workload, pod_set, index, text)


def _pod(workload: Workload, pod_set: PodSet, index: int, index_label: str) -> Pod:
    namespace, name = workload.metadata.key
    owner = controller(workload)
    template = pod_set.template.spec
    metadata = Meta(
        name=f"{name}-{pod_set.name}-{index}",
        namespace=namespace,
        labels={names.POD_INDEX: index_label} if index_label else {},
    )
    if owner is None:
        metadata = replace(metadata, labels={names.POD_GROUP: name})
    elif owner.kind == "Pod":
        metadata = replace(metadata, uid=identity(workload))
    else:
        metadata = replace(metadata, ownerReferences=(owner,))
    spec = PodSpec(template.containers, template.initContainers, template.overhead)
    return Pod(metadata, spec)
