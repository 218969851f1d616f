"""PURE. What is wrong with Kueue's controller, or with the queue of a job."""

from collections.abc import Iterator

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.kueue import ClusterQueue, Workload
from cede.api.objects import CLUSTER_QUEUES, LOCAL_QUEUES, condition
from cede.api.reasons import KueueReason
from cede.api.wait_reasons import WaitReason
from cede.causes.facts import Cause
from cede.causes.index import Index

KUEUE = "kueue-controller-manager"
KUEUE_NAMESPACE = "kueue-system"


def kueue_down(index: Index) -> Iterator[Cause]:
    """By its Deployment where that can be read, else by what the quota_controller has read."""
    place = f"Deployment {KUEUE} in namespace {KUEUE_NAMESPACE}"
    deployment = index.snapshot.deployments.get(KUEUE)
    policy = index.snapshot.policy
    configured = condition(policy.status.conditions, "KueueConfigured") if policy else None
    is_off = bool(configured) and (configured or {}).get("reason") == KueueReason.NOT_RUNNING
    if deployment:
        is_off = deployment.status.availableReplicas == 0
    if is_off:
        yield Cause(
            WaitReason.KUEUE_DOWN,
            f"Kueue admits nothing: {place} has no replica that is available.",
            f"an admin looks at {place}",
        )


def queue_problem(workload: Workload, index: Index) -> Cause | None:
    """Why nothing of its queue is admitted; None if the queue is in order, or was not read."""
    namespace, name = workload.metadata.namespace, workload.spec.queueName
    local_queue = index.local_queues.get((namespace, name))
    if local_queue is None:
        if not index.snapshot.knows(LOCAL_QUEUES):
            return None
        return Cause(
            WaitReason.UNKNOWN_LOCAL_QUEUE,
            f"LocalQueue {name}, which it names, does not exist in namespace {namespace}.",
            f"name one of `kubectl get localqueues -n {namespace}`",
        )
    if local_queue.spec.stopPolicy != "None":
        return Cause(
            WaitReason.QUEUE_ON_HOLD,
            f"LocalQueue {name} is on hold: its stopPolicy is {local_queue.spec.stopPolicy}.",
            "an admin sets its stopPolicy to None",
        )
    queue_name = local_queue.spec.clusterQueue
    queue = index.queues.get(queue_name)
    if queue is not None:
        return _cluster_queue(queue, index.allocations.get(queue_name))
    if not index.snapshot.knows(CLUSTER_QUEUES):
        return None
    return Cause(
        WaitReason.UNKNOWN_CLUSTER_QUEUE,
        f"ClusterQueue {queue_name}, which LocalQueue {name} leads to, does not exist.",
        f"an admin looks at ComputeAllocation {queue_name}",
    )


def _cluster_queue(queue: ClusterQueue, allocation: ComputeAllocation | None) -> Cause | None:
    name = queue.metadata.name
    if queue.spec.stopPolicy != "None":
        return _allocation_stops(allocation) or Cause(
            WaitReason.QUEUE_ON_HOLD,
            f"ClusterQueue {name} is on hold: its stopPolicy is {queue.spec.stopPolicy}.",
            "an admin sets its stopPolicy to None",
        )
    active = condition(queue.status.conditions, names.ACTIVE)
    if active and active.status == "False":
        return Cause(
            WaitReason.QUEUE_UNUSABLE,
            f"Kueue does not use ClusterQueue {name} ({active.reason}): "
            f"{active.message.rstrip('.')}.",
            f"an admin looks at ComputeAllocation {name} and at `kubectl describe clusterqueue "
            f"{name}`",
        )
    return None


def _allocation_stops(allocation: ComputeAllocation | None) -> Cause | None:
    """Whether the quota_controller holds the queue because its allocation says so."""
    if allocation is None:
        return None
    name = allocation.metadata.name
    if allocation.metadata.deletionTimestamp:
        return Cause(
            WaitReason.ALLOCATION_DELETED,
            f"ComputeAllocation {name} is being deleted, and its queue admits nothing new.",
            "an admin creates it again, or the job moves to another team",
        )
    if not allocation.spec.active:
        return Cause(
            WaitReason.ALLOCATION_NOT_ACTIVE,
            f"ComputeAllocation {name} is not active (spec.active is false).",
            "an admin sets spec.active to true",
        )
    return None
