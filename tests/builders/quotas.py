"""Policies, allocations, nodes and live objects for tests of the quota_controller."""

from collections.abc import Iterable
from typing import Any

import msgspec

from cede.api.allocation import ComputeAllocation
from cede.api.instance_type import InstanceType
from cede.api.kueue import Node, NodeSpec, NodeStatus
from cede.api.names import GPU
from cede.api.objects import CLUSTER_QUEUES, NAMESPACES, Condition, Json, Meta
from cede.api.pods import DaemonSet
from cede.api.policy import ClusterPolicy
from quota_controller.desired.desired_object import DesiredObject, LiveObjects, ObjectId
from quota_controller.desired.plan import Plan, Snapshot

GI = 2**30
P5 = InstanceType(name="p5", accelerators=8, cpu="190", memory="1900Gi")
G6 = InstanceType(name="g6", accelerators=4, cpu="48", memory="192Gi")
ONE_SLICE = "nvidia.com/mig-1g.5gb"
THREE_SLICES = "nvidia.com/mig-3g.20gb"
MIG = InstanceType(
    name="a100", partitions={ONE_SLICE: 28, THREE_SLICES: 8}, cpu="104", memory="1040Gi"
)
MIXED = InstanceType(
    name="mixed", accelerators=4, partitions={ONE_SLICE: 28}, cpu="112", memory="1120Gi"
)
"""Some of its accelerators are partitioned."""
P5_GPU = ("p5", GPU)
"""The key of the accelerators of type p5 in a quota."""
ROOT_KEY = b"root"


# --- the cluster ----------------------------------------------------------------------------------
def node(
    name: str = "n",
    instance_type: str = "p5",
    gpus: int = 8,
    cpu: str = "180",
    memory: str = "1800Gi",
    *,
    ready: str = "True",
    cordoned: bool = False,
    deleting: bool = False,
    partitions: dict[str, int] | None = None,
) -> Node:
    """A node; by default it is healthy and has a little less CPU and memory than P5 declares."""
    labels = {"node.kubernetes.io/instance-type": instance_type}
    deleted = "2026-01-01T00:00:00Z" if deleting else ""
    allocatable: dict[str, str | int] = {GPU: gpus, "cpu": cpu, "memory": memory, "pods": "110"}
    allocatable |= partitions or {}
    return Node(
        Meta(name=name, labels=labels, deletionTimestamp=deleted),
        NodeSpec(unschedulable=cordoned),
        NodeStatus(allocatable, (Condition("Ready", ready),)),
    )


def daemon_set(**pod: object) -> DaemonSet:
    """A DaemonSet whose pods request 100m CPU and 1Gi memory."""
    containers = [{"resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}]
    template = {"spec": {"containers": containers, **pod}}
    wire: Json = {"metadata": {"name": "d"}, "spec": {"template": template}}
    return msgspec.convert(wire, DaemonSet)


def policy(**spec: Any) -> ClusterPolicy:
    """A policy with type p5 and two priority classes."""
    types = [{"name": "p5", "accelerators": 8, "cpu": "190", "memory": "1900Gi"}]
    classes = [{"name": "training", "weight": 50}, {"name": "sweep", "weight": 10}]
    return ClusterPolicy.model_validate(
        {
            "metadata": {"name": "default"},
            "spec": {"instanceTypes": types, "priorityClasses": classes, **spec},
        }
    )


def allocation(name: str = "vision", *, deleting: bool = False, **spec: Any) -> ComputeAllocation:
    """An allocation that owns one node of type p5."""
    meta = {
        "name": name,
        "uid": f"uid-{name}",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    if deleting:
        meta["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    quotas = [{"instanceType": "p5", "count": 1}]
    return ComputeAllocation.model_validate({"metadata": meta, "spec": {"quotas": quotas, **spec}})


def snapshot(
    allocations: Iterable[ComputeAllocation] = (),
    *,
    cluster_policy: ClusterPolicy | None = None,
    nodes: Iterable[Node] = (),
    live: LiveObjects | None = None,
    leader: str = "cede-scheduler-0",
    without_policy: bool = False,
) -> Snapshot:
    """A cluster with the default policy, in which a scheduler leads and nothing exists yet."""
    return Snapshot(
        policy=None if without_policy else cluster_policy or policy(),
        allocations=tuple(allocations),
        nodes=tuple(nodes),
        daemon_sets=(),
        live=live or {},
        leader=leader,
        root_key=ROOT_KEY,
        previous_root_key=b"",
        now=0.0,
    )


# --- live objects ---------------------------------------------------------------------------------
def as_live(plan: Plan, **queue_status: Json) -> dict[ObjectId, Json]:
    """What the API server would have after the plan was applied, with the status of some queues."""
    live = {}
    for desired in plan.objects:
        metadata = {**desired.body["metadata"], "uid": "u"}
        live[desired.object_id] = {**desired.body, "metadata": metadata}
    for name, status in queue_status.items():
        live[CLUSTER_QUEUES, ("", name)]["status"] = status
    return live


def live_namespace(name: str = "vision", **labels: str) -> dict[ObjectId, Json]:
    """A namespace with these labels only."""
    metadata = {"name": name, "uid": "u", "labels": labels}
    return {(NAMESPACES, ("", name)): {"metadata": metadata}}


def reservation(total: int, borrowed: int = 0) -> Json:
    """The status of a queue with this many accelerators of type p5 reserved."""
    accelerators = {"name": GPU, "total": str(total), "borrowed": str(borrowed)}
    return {"flavorsReservation": [{"name": "p5", "resources": [accelerators]}]}


# --- plans ----------------------------------------------------------------------------------------
def find_object(plan: Plan, kind: str, name: str) -> DesiredObject:
    [desired] = [d for d in plan.objects if d.kind.kind == kind and d.key[1] == name]
    return desired


def queue_spec(plan: Plan, name: str = "vision") -> Json:
    """The spec of a team's ClusterQueue."""
    spec: Json = find_object(plan, "ClusterQueue", name).body["spec"]
    return spec


def quota_entries(spec: Json) -> dict[str, Json]:
    """The quota of the first flavor of a ClusterQueue or Cohort, by resource."""
    [group] = spec["resourceGroups"]
    return {entry["name"]: entry for entry in group["flavors"][0]["resources"]}
