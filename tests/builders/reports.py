"""The objects of a cluster that `cede status` and `cede explain` report on."""

from typing import Any

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.kueue import (
    Admission,
    ClusterQueue,
    ClusterQueueSpec,
    FlavorQuotas,
    Lease,
    LeaseSpec,
    LocalQueue,
    LocalQueueSpec,
    PodSet,
    PodSetAssignment,
    ResourceGroup,
    ResourceQuota,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from cede.api.objects import Condition, Json, Meta, OwnerReference, rfc3339
from cede.api.pod_templates import Container, ContainerResources, PodTemplate, TemplateSpec
from cede.api.policy import ClusterPolicy
from cede.causes.snapshot import Snapshot

NOW = 10_000.0
LEASE = Lease(
    spec=LeaseSpec(
        holderIdentity="s-1", renewTime=rfc3339(NOW - 1, micro=True), leaseDurationSeconds=15
    )
)
LEASES = {names.SCHEDULER_LEASE: LEASE, names.QUOTA_CONTROLLER_LEASE: LEASE}


def condition(type_: str, status: bool, message: str = "", since: float = NOW - 60) -> Condition:
    return Condition(type_, str(status), "Reason", message, rfc3339(since))


PENDING = condition(names.QUOTA_RESERVED, False, "couldn't assign flavors to pod set main")
ADMITTED = condition(names.ADMITTED, True)


def policy(mode: str = "Enforce", **status: Any) -> ClusterPolicy:
    return ClusterPolicy.model_validate(
        {"metadata": Meta(name="default"), "spec": {"mode": mode}, "status": status}
    )


def allocation(
    name: str, ready: bool = True, message: str = "fine", **status: Any
) -> ComputeAllocation:
    """With `spec`, its spec; with `reason`, that of condition Ready; with `nominal`, the GPUs of
    type a100 that it owns by its spec."""
    spec = status.pop("spec", {})
    reason = status.pop("reason", "R")
    if "nominal" in status:
        nominal = {names.GPU: str(status.pop("nominal"))}
        status["quotas"] = [{"instanceType": "a100", "nominal": nominal}]
    ready_condition = {"type": "Ready", "status": str(ready), "reason": reason, "message": message}
    facts = {"observedGeneration": 1, "conditions": [ready_condition], "namespace": name} | status
    return ComputeAllocation.model_validate(
        {"metadata": Meta(name=name, generation=1), "spec": spec, "status": facts}
    )


def workload(
    *conditions: Condition, pods: int = 4, active: bool = True, admitted: bool = False
) -> Workload:
    """The Workload of Job vision/claim; each pod asks for one GPU."""
    container = Container(resources=ContainerResources({"cpu": "1"}, {names.GPU: 1}))
    pod_set = PodSet(count=pods, template=PodTemplate(spec=TemplateSpec(containers=(container,))))
    assignment = PodSetAssignment(count=pods, flavors={names.GPU: "a100"})
    return Workload(
        Meta(
            name="job-claim",
            namespace="vision",
            uid="uid-claim",
            creationTimestamp=rfc3339(NOW - 300),
            ownerReferences=(OwnerReference("Job", "claim"),),
        ),
        WorkloadSpec(queueName="default", active=active, priority=50, podSets=(pod_set,)),
        WorkloadStatus(conditions, Admission("vision", (assignment,)) if admitted else None),
    )


def cluster_queue(gpus: int = 4) -> ClusterQueue:
    quotas = FlavorQuotas("a100", (ResourceQuota(names.GPU, gpus),))
    group = ResourceGroup((names.GPU,), (quotas,))
    return ClusterQueue(Meta(name="vision"), ClusterQueueSpec(resourceGroups=(group,)))


LOCAL_QUEUE = LocalQueue(Meta(name="default", namespace="vision"), LocalQueueSpec("vision"))


def snapshot(**changed: Any) -> Snapshot:
    """A healthy cluster in which team vision owns 4 GPUs, with these fields changed."""
    facts: dict[str, Any] = {
        "policy": policy(),
        "queues": (cluster_queue(),),
        "leases": LEASES,
        "local_queues": (LOCAL_QUEUE,),
    }
    return Snapshot(**facts | changed)


def stopping_cession(completed: str = "") -> Json:
    """A Cession as the API server has it: Job research/gpt is stopped for vision/inference."""
    preemptor = {
        "namespace": "vision",
        "workload": "w",
        "uid": "1",
        "job": "inference",
        "queue": "vision",
        "creationTime": rfc3339(0),
    }
    target = {
        "namespace": "research",
        "job": "gpt",
        "uid": "u",
        "queue": "research",
        "fromSize": 8,
        "toSize": 0,
        "how": "Stop",
    }
    spec = {
        "preemptor": preemptor,
        "targets": [target],
        "reason": "ReclaimOwnQuota",
        "why": "it is theirs",
    }
    status = {
        "phase": "Released",
        "targets": [{"uid": "u", "stopped": True}],
        "completionTime": completed,
    }
    return {"metadata": {"name": "c-1"}, "spec": spec, "status": status}
