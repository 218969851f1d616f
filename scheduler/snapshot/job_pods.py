"""PURE. What the pods of a job show."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from cede.api import names, sizes
from cede.api.kueue import Pod
from cede.api.objects import condition, is_true, unix
from cede.api.pod_state import failure
from cede.api.pods import pod_requests
from cede.api.resources import Resources


@dataclass(frozen=True, slots=True)
class JobPods:
    """What the pods of one job show."""

    ready: int = 0
    # IP addresses of the running pods of an Indexed Job, in the order in which they are asked
    addresses: tuple[str, ...] = ()
    # by node: what its pods there request together
    requested_per_node: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # the node of each index, as far as it has one
    node_of_index: Mapping[int, str] = field(default_factory=dict)
    # completion indexes of the ready pods
    ready_indexes: frozenset[int] = frozenset()
    # completion indexes of the pods that have succeeded
    completed_indexes: frozenset[int] = frozenset()
    # pods for which no node has room
    unplaced: int = 0
    # by the kubelet's reason: pods with a container that cannot start
    failing: Mapping[str, int] = field(default_factory=dict)
    # pods that are on a node
    on_nodes: int = 0
    # True if the job does not come back by itself after it was stopped
    stays_stopped: bool = False
    # Unix seconds by which all of these have ended; infinite if one is not being deleted
    ends_by: float = 0.0
    # of a pod of a Deployment: the names of its ReplicaSet and of its Deployment
    replica_set: str = ""
    deployment: str = ""


NO_PODS = JobPods()


def read_job_pods(pods: Iterable[Pod]) -> JobPods:
    """What the pods of one owner show, in whatever order. Of pods that have ended, only the indexes
    of succeeded ones are kept."""
    ready = 0
    running = list[Pod]()
    requested = defaultdict[str, Resources](Resources)
    node_of_index = dict[int, str]()
    indexes = set[int]()
    completed = set[int]()
    unplaced = 0
    failing = Counter[str]()
    ends = list[float]()
    stays_stopped = False
    replica_set = deployment = ""
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        if pod.status.phase == "Succeeded" and _index(pod) >= 0:
            completed.add(_index(pod))
        if pod.status.phase not in ("Pending", "Running"):
            continue
        if pod.spec.nodeName:
            requested[pod.spec.nodeName] += pod_requests(pod.spec)
            node_of_index[_index(pod)] = pod.spec.nodeName
            # Kubernetes: the time of the deletion and the grace period
            ends.append(unix(pod.metadata.deletionTimestamp) or inf)
        if is_true(pod.status.conditions, names.READY):
            ready += 1
            # the Job controller does not count a pod that is being deleted
            if not pod.metadata.deletionTimestamp:
                indexes.add(_index(pod))
        if pod.metadata.annotations.get(names.AFTER_PREEMPTION) == names.STOP:
            stays_stopped = True
        replica_set, deployment = _read_makers(pod)
        if _is_unplaced(pod):
            unplaced += 1
        containers = (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
        if reason := failure(container.state for container in containers):
            failing[reason] += 1
        if _is_running(pod):
            running.append(pod)
    return JobPods(
        ready=ready,
        addresses=_in_order_of_calls(running),
        requested_per_node=dict(requested),
        node_of_index=node_of_index,
        ready_indexes=frozenset(indexes),
        completed_indexes=frozenset(completed),
        unplaced=unplaced,
        failing=failing,
        on_nodes=len(ends),
        stays_stopped=stays_stopped,
        ends_by=max(ends, default=0.0),
        replica_set=replica_set,
        deployment=deployment,
    )


def combined(parts: Sequence[JobPods]) -> JobPods:
    """What several owners show together, such as the Jobs of an AppWrapper. Their indexes are no
    indexes of the whole."""
    parts = [part for part in parts if part is not NO_PODS]
    if len(parts) == 1:
        return parts[0]
    requested = defaultdict[str, Resources](Resources)
    failing = Counter[str]()
    for part in parts:
        failing.update(part.failing)
        for node, amounts in part.requested_per_node.items():
            requested[node] += Resources(amounts)
    return JobPods(
        ready=sum(part.ready for part in parts),
        addresses=next((part.addresses for part in parts if part.addresses), ()),
        requested_per_node=dict(requested),
        unplaced=sum(part.unplaced for part in parts),
        failing=failing,
        stays_stopped=any(part.stays_stopped for part in parts),
        on_nodes=sum(part.on_nodes for part in parts),
        ends_by=max((part.ends_by for part in parts), default=0.0),
    )


def _index(pod: Pod) -> int:
    """-1 for a pod that is not of an Indexed Job."""
    index = sizes.parse_one(pod.metadata.labels.get(names.POD_INDEX, ""))
    return -1 if index is None else index


def _read_makers(pod: Pod) -> tuple[str, str]:
    """The names of its ReplicaSet, and of the Deployment that made that; both empty for any other
    pod. Only controllers name themselves as owners."""
    hash_ = pod.metadata.labels.get(names.POD_TEMPLATE_HASH, "")
    for owner in pod.metadata.ownerReferences:
        if owner.controller and owner.kind == "ReplicaSet" and owner.name.endswith(f"-{hash_}"):
            return owner.name, owner.name.removesuffix(f"-{hash_}") if hash_ else ""
    return "", ""


def _is_unplaced(pod: Pod) -> bool:
    """Whether the Kubernetes scheduler tried the pod and no node had room."""
    scheduled = condition(pod.status.conditions, names.POD_SCHEDULED)
    return scheduled is not None and scheduled.reason == "Unschedulable"


def _is_running(pod: Pod) -> bool:
    """Whether it is a pod of an Indexed Job whose agent may answer."""
    return (
        _index(pod) >= 0
        and pod.status.phase == "Running"
        and bool(pod.status.podIP)
        and not pod.metadata.deletionTimestamp
    )


def _in_order_of_calls(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Their IP addresses: first one pod of every node, because a node fails as a whole. Pods that
    are not ready come last: Kubernetes may have lost their node."""
    earlier = Counter[str]()
    ranks = list[tuple[bool, int, int, str]]()
    for pod in sorted(pods, key=_index):
        is_ready = is_true(pod.status.conditions, names.READY)
        node = pod.spec.nodeName
        ranks.append((not is_ready, earlier[node], _index(pod), pod.status.podIP))
        earlier[node] += 1
    return tuple(address for *_, address in sorted(ranks))
