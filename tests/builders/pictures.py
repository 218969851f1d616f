"""Whole clusters as the caches show them, for predictions: nodes, teams, and jobs with pods.

By default two nodes of four accelerators, and teams vision and research that own one node each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.kueue import (
    ClusterQueue,
    Cohort,
    Job,
    LocalQueue,
    Node,
    Pod,
    ResourceFlavor,
    Workload,
)
from cede.api.objects import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    Json,
    Kind,
    rfc3339,
)
from cede.api.policy import ClusterPolicy
from elastic_runtime.contract import State, Status
from quota_controller.desired.plan import Plan, Snapshot, make_plan
from quota_controller.status.allocation import allocation_statuses
from scheduler.snapshot.snapshot import RawObjects
from whatif.questions import Picture

NOW = 1_800_000_000.0
LONG_AGO = rfc3339(NOW - 3600)
TYPE = "a100"
GPU = names.GPU
CLASSES = {"inference": 100, "training": 50, "sweep": 10}
ACTIVE = {"type": names.ACTIVE, "status": "True"}


def node(name: str, gpus: int = 4, *, cordoned: bool = False) -> Node:
    wire = {
        "metadata": {"name": name, "labels": {"type": TYPE}},
        "spec": {"unschedulable": cordoned},
        "status": {
            "allocatable": {GPU: str(gpus), "cpu": "40", "memory": "400Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return msgspec.convert(wire, Node, strict=False)


def allocation(name: str, accelerators: int = 4, **spec: Any) -> ComputeAllocation:
    quotas = [{"instanceType": TYPE, "accelerators": accelerators}]
    metadata = {"name": name, "uid": f"uid-{name}", "creationTimestamp": LONG_AGO, "generation": 1}
    return ComputeAllocation.model_validate(
        {
            "metadata": metadata,
            "spec": {"quotas": quotas, **spec},
            "status": {"namespace": name, "observedGeneration": 1},
        }
    )


def policy(**spec: Any) -> ClusterPolicy:
    type_ = {
        "name": TYPE,
        "nodeLabels": {"type": TYPE},
        "accelerators": 4,
        "cpu": "40",
        "memory": "400Gi",
    }
    classes = [{"name": name, "weight": weight} for name, weight in CLASSES.items()]
    return ClusterPolicy.model_validate(
        {
            "metadata": {"name": "default"},
            "spec": {
                "instanceTypes": [type_],
                "priorityClasses": classes,
                "defaultPriorityClass": "training",
                **spec,
            },
            "status": {"preemption": "Cede"},
        }
    )


@dataclass(frozen=True)
class JobOf:
    """A job of one-accelerator pods: `nodes` names the node of each pod; without any it waits."""

    team: str
    name: str
    pods: int
    nodes: Sequence[str] = ()
    sizes: str = ""
    desired: int = 0
    priority_class: str = "training"
    answers: bool = True
    started: str = LONG_AGO

    @property
    def uid(self) -> str:
        return f"uid-{self.team}-{self.name}"

    def job(self) -> Job:
        notes = {}
        if self.sizes:
            desired = str(self.desired or self.pods)
            notes = {names.SIZES: self.sizes, names.ELASTIC_JOB: "true"}
            notes[names.DESIRED_SIZE] = desired
        counts = {"parallelism": self.pods, "completions": self.pods, "suspend": not self.nodes}
        wire = {
            "metadata": self._metadata(self.name, self.uid) | {"annotations": notes},
            "spec": {**counts, "completionMode": "Indexed"},
            "status": {"ready": len(self.nodes), "startTime": self.started if self.nodes else ""},
        }
        return msgspec.convert(wire, Job)

    def workload(self) -> Workload:
        metadata = self._metadata(f"job-{self.name}", f"{self.uid}-w")
        metadata["ownerReferences"] = [self._owner]
        pod_sets = [{"name": "main", "count": self.pods, "template": {"spec": pod_spec()}}]
        spec = {
            "queueName": names.LOCAL_QUEUE,
            "priority": CLASSES[self.priority_class],
            "priorityClassRef": {"name": self.priority_class},
            "podSets": pod_sets,
        }
        status = self._admitted() if self.nodes else {}
        wire = {"metadata": metadata, "spec": spec, "status": status}
        return msgspec.convert(wire, Workload)

    def _admitted(self) -> Json:
        def condition(type_: str) -> Json:
            return {"type": type_, "status": "True", "lastTransitionTime": self.started}

        amounts = {GPU: str(self.pods), "cpu": str(self.pods), "memory": f"{self.pods}Gi"}
        assigned = {
            "name": "main",
            "count": self.pods,
            "flavors": dict.fromkeys(amounts, TYPE),
            "resourceUsage": amounts,
        }
        conditions = [condition(t) for t in (names.QUOTA_RESERVED, names.ADMITTED)]
        if len(self.nodes) == self.pods:
            conditions.append(condition(names.PODS_READY))
        admission = {"clusterQueue": self.team, "podSetAssignments": [assigned]}
        return {"conditions": conditions, "admission": admission}

    def pods_on_nodes(self) -> list[Pod]:
        return [self._pod(index, node_name) for index, node_name in enumerate(self.nodes)]

    def _pod(self, index: int, node_name: str) -> Pod:
        metadata = self._metadata(f"{self.name}-{index}-x", f"{self.uid}-{index}")
        metadata["labels"] = {names.POD_INDEX: str(index), names.POD_JOB_UID: self.uid}
        metadata["ownerReferences"] = [self._owner]
        status = {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        wire = {
            "metadata": metadata,
            "spec": pod_spec() | {"nodeName": node_name},
            "status": status,
        }
        return msgspec.convert(wire, Pod)

    def status(self) -> Status:
        return Status(State.TRAINING, size=self.pods, wanted=self.pods)

    @property
    def _owner(self) -> Json:
        return {"kind": "Job", "name": self.name, "uid": self.uid, "controller": True}

    def _metadata(self, name: str, uid: str) -> Json:
        return {
            "name": name,
            "namespace": self.team,
            "uid": uid,
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": LONG_AGO,
        }


def pod_spec() -> Json:
    """One accelerator, one CPU and 1 GiB."""
    requests = {GPU: "1", "cpu": "1", "memory": "1Gi"}
    return {"containers": [{"name": "c", "resources": {"requests": requests}}]}


def manifest(name: str, pods: int, **fields: Any) -> Json:
    """A batch/v1 Job as its user writes it."""
    labels = {names.PRIORITY_CLASS: fields["priority"]} if "priority" in fields else {}
    notes = {names.SIZES: fields["sizes"]} if "sizes" in fields else {}
    metadata: Json = {"name": name, "labels": labels, "annotations": notes}
    if fields.get("namespace"):
        metadata["namespace"] = fields["namespace"]
    container = {
        "name": "c",
        "image": "registry.example/training",
        "command": ["python", "-m", "elastic_runtime", "train.py"],
        "resources": {"limits": {GPU: fields.get("gpus", 1), "cpu": "1", "memory": "1Gi"}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completionMode": "Indexed",
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


@dataclass(frozen=True)
class ClusterOf:
    """What is in the cluster; Kueue's objects are those that the quota_controller makes of it."""

    jobs: Sequence[JobOf] = ()
    nodes: Sequence[Node] = field(default_factory=lambda: (node("n1"), node("n2")))
    allocations: Sequence[ComputeAllocation] = field(
        default_factory=lambda: (allocation("vision"), allocation("research"))
    )
    policy: ClusterPolicy = field(default_factory=policy)

    def objects(self) -> RawObjects:
        plan = self._plan()
        jobs = [job.job() for job in self.jobs]
        return RawObjects(
            workloads=[job.workload() for job in self.jobs],
            jobs=jobs,
            pods=[pod for job in self.jobs for pod in job.pods_on_nodes()],
            nodes=list(self.nodes),
            cluster_queues=[_active(queue) for queue in _all(plan, CLUSTER_QUEUES, ClusterQueue)],
            local_queues=_all(plan, LOCAL_QUEUES, LocalQueue),
            cohorts=_all(plan, COHORTS, Cohort),
            resource_flavors=_all(plan, RESOURCE_FLAVORS, ResourceFlavor),
            allocations=self._granted(plan),
            policies=[self.policy],
            statuses=self._statuses(),
        )

    def picture(self) -> Picture:
        return Picture(self.objects(), NOW)

    def _statuses(self) -> Mapping[str, Status]:
        running = (job for job in self.jobs if job.sizes and job.nodes and job.answers)
        return {job.uid: job.status() for job in running}

    def _granted(self, plan: Plan) -> list[ComputeAllocation]:
        """With the status that the quota_controller writes: what was granted stays granted."""
        statuses = allocation_statuses(plan, self._snapshot, {}, NOW)
        return [
            item.model_copy(update={"status": statuses[item.metadata.name]})
            for item in self.allocations
        ]

    def _plan(self) -> Plan:
        return make_plan(self._snapshot)

    @property
    def _snapshot(self) -> Snapshot:
        return Snapshot(
            policy=self.policy,
            allocations=tuple(self.allocations),
            nodes=tuple(self.nodes),
            daemon_sets=(),
            live={},
            leader="s-1",
            root_key=b"",
            previous_root_key=b"",
            now=NOW,
        )


def _all(plan: Plan, kind: Kind, cls: type[Any]) -> list[Any]:
    bodies = (desired.body for desired in plan.objects if desired.kind == kind)
    return [msgspec.convert(body, cls, strict=False) for body in bodies]


def _active(queue: ClusterQueue) -> ClusterQueue:
    status = msgspec.convert({"conditions": [ACTIVE]}, type(queue.status))
    return replace(queue, status=status)
