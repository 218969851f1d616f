"""PURE. What the pods and the runtime of a job show."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cede.api import names
from cede.api.kueue import Job, Pod
from cede.api.objects import Meta, condition, is_true
from elastic_runtime.contract import Status


@dataclass(frozen=True, slots=True)
class JobPods:
    """What the pods and the runtime of one job show."""

    ready: int = 0
    # IP address of pod 0
    address: str = ""
    runtime: Status | None = None
    # pods by node
    per_node: Mapping[str, int] = field(default_factory=dict)
    # the node of each index, as far as it has one
    node_of_index: Mapping[int, str] = field(default_factory=dict)
    # completion indexes of the ready pods
    ready_indexes: frozenset[int] = frozenset()
    # pods for which no node has room
    unplaced: int = 0


def pods_by_job(
    pods: Iterable[Pod], jobs: Mapping[str, Job], statuses: Mapping[str, Status]
) -> dict[str, JobPods]:
    """By the uid of the object that owns the pods: a Job, or what owns the Job, such as a JobSet.

    A group of pods that belongs together has the key `group_key`.
    """
    ready = Counter[str]()
    addresses = dict[str, str]()
    per_node: dict[str, Counter[str]] = defaultdict(Counter)
    node_of_index: dict[str, dict[int, str]] = defaultdict(dict)
    indexes: dict[str, set[int]] = defaultdict(set)
    unplaced = Counter[str]()
    for pod in pods:
        owner = _owner_of(pod, jobs)
        if not owner or pod.status.phase not in ("Pending", "Running"):
            continue
        if pod.spec.nodeName:
            per_node[owner][pod.spec.nodeName] += 1
            node_of_index[owner][_index(pod)] = pod.spec.nodeName
        if is_true(pod.status.conditions, names.READY):
            ready[owner] += 1
            # the Job controller does not count a pod that is being deleted
            if not pod.metadata.deletionTimestamp:
                indexes[owner].add(_index(pod))
        if _is_unplaced(pod):
            unplaced[owner] += 1
        if _is_pod_0(pod):
            addresses[owner] = pod.status.podIP
    uids = {*ready, *addresses, *per_node, *unplaced, *statuses}
    return {
        uid: JobPods(
            ready=ready[uid],
            address=addresses.get(uid, ""),
            runtime=statuses.get(uid),
            per_node=per_node.get(uid, Counter()),
            node_of_index=node_of_index.get(uid, {}),
            ready_indexes=frozenset(indexes.get(uid, ())),
            unplaced=unplaced[uid],
        )
        for uid in uids
    }


def group_key(namespace: str, group: str) -> str:
    """Kueue's Workload of a group of pods has the group's name."""
    return f"{namespace}/{group}"


def _owner_of(pod: Pod, jobs: Mapping[str, Job]) -> str:
    labels = pod.metadata.labels
    group = labels.get(names.POD_GROUP)
    if group:
        return group_key(pod.metadata.namespace, group)
    # anybody may write a label, and the uids of Jobs are no secret
    uid = _controller_uid(pod.metadata)
    job = jobs.get(uid)
    if job is None:
        return uid
    if job.metadata.namespace != pod.metadata.namespace:
        return ""
    return _controller_uid(job.metadata) or uid


def _controller_uid(metadata: Meta) -> str:
    owners = metadata.ownerReferences
    return next((reference.uid for reference in owners if reference.controller), "")


def _index(pod: Pod) -> int:
    """-1 for a pod that is not of an Indexed Job."""
    text = pod.metadata.labels.get(names.POD_INDEX, "")
    return int(text) if text.isdecimal() else -1


def _is_unplaced(pod: Pod) -> bool:
    """Whether the Kubernetes scheduler tried the pod and no node had room."""
    scheduled = condition(pod.status.conditions, names.POD_SCHEDULED)
    return scheduled is not None and scheduled.reason == "Unschedulable"


def _is_pod_0(pod: Pod) -> bool:
    """Whether it is the running pod 0 of its job, where the runtime answers."""
    return (
        pod.metadata.labels.get(names.POD_INDEX) == "0"
        and pod.status.phase == "Running"
        and not pod.metadata.deletionTimestamp
    )
