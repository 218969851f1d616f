"""PURE. One frozen snapshot of the cluster, built from the objects in the caches."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.kueue import ClusterQueue, Cohort, Job, LocalQueue, Node, Pod, Workload
from cede.api.objects import Key, is_true
from cede.api.resources import FlavorResource
from cede.api.workload_identity import identity
from elastic_runtime.contract import Status
from scheduler.cluster_quota import read_cohort_quota
from scheduler.cohort import CohortQuota
from scheduler.free_capacity import NodeRoom, read_nodes
from scheduler.workloads import (
    AdmittedWorkload,
    JobPods,
    PendingWorkload,
    has_quota,
    read_admitted,
    read_pending,
    replaced_slice,
)


@dataclass(frozen=True, slots=True)
class RawObjects:
    """The objects in the caches at one moment."""

    workloads: Sequence[Workload] = ()
    jobs: Sequence[Job] = ()
    pods: Sequence[Pod] = ()
    nodes: Sequence[Node] = ()
    cluster_queues: Sequence[ClusterQueue] = ()
    local_queues: Sequence[LocalQueue] = ()
    cohorts: Sequence[Cohort] = ()
    allocations: Sequence[ComputeAllocation] = ()
    cessions: Sequence[Cession] = ()
    # by Job uid: the runtimes that answered lately
    statuses: Mapping[str, Status] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a plan depends on, apart from the policy and the time."""

    quota: CohortQuota = field(default_factory=CohortQuota)
    # in Kueue's order: highest priority first, then oldest first
    pending: tuple[PendingWorkload, ...] = ()
    admitted: tuple[AdmittedWorkload, ...] = ()
    # uids of Workloads
    finished: frozenset[str] = frozenset()
    # oldest first
    cessions: tuple[Cession, ...] = ()
    # the nodes that are Ready and schedulable
    nodes: tuple[NodeRoom, ...] = ()
    # for which the snapshot contradicts itself or Kueue's own count: nobody shrinks or stops for
    # what is missing of it
    disagreement: frozenset[FlavorResource] = frozenset()


def take(objects: RawObjects) -> Snapshot:
    """Workloads of queues outside the Cohort are left out."""
    with_quota = [workload for workload in objects.workloads if has_quota(workload)]
    replaced = {replaced_slice(workload) for workload in with_quota}
    # a slice whose replacement has quota counts no more; Kueue finishes it a moment later
    current = [workload for workload in objects.workloads if workload.metadata.key not in replaced]
    admitted = _admitted(objects, current)
    quota = read_cohort_quota(
        objects.cluster_queues, objects.cohorts, objects.allocations, admitted
    )
    pending = _pending(objects, current, {workload.metadata.key for workload in with_quota})
    cessions = sorted(objects.cessions, key=lambda c: (c.metadata.created, c.metadata.name))
    return Snapshot(
        quota=quota,
        pending=tuple(workload for workload in pending if workload.queue in quota.queues),
        admitted=tuple(workload for workload in admitted if workload.queue in quota.queues),
        finished=frozenset(w.metadata.uid for w in objects.workloads if _is_finished(w)),
        cessions=tuple(cessions),
        nodes=read_nodes(objects.nodes, objects.pods),
    )


def _is_finished(workload: Workload) -> bool:
    return is_true(workload.status.conditions, names.FINISHED)


def _admitted(objects: RawObjects, current: Iterable[Workload]) -> list[AdmittedWorkload]:
    jobs = {job.metadata.uid: job for job in objects.jobs}
    pods = _pods_by_job(objects)
    admitted = list[AdmittedWorkload]()
    for workload in current:
        if has_quota(workload):
            uid = identity(workload)
            admitted.append(read_admitted(workload, jobs.get(uid), pods.get(uid, JobPods())))
    return admitted


def _pending(
    objects: RawObjects, current: Iterable[Workload], with_quota: set[Key]
) -> list[PendingWorkload]:
    """In Kueue's order."""
    queues = {queue.metadata.key: queue.spec.clusterQueue for queue in objects.local_queues}
    pending = list[PendingWorkload]()
    for workload in current:
        if not has_quota(workload) and not _is_finished(workload):
            local_queue = (workload.metadata.namespace, workload.spec.queueName)
            pending.append(read_pending(workload, queues.get(local_queue, ""), with_quota))
    return sorted(pending, key=lambda w: (-w.priority, w.queued_at, w.uid))


def _pods_by_job(objects: RawObjects) -> dict[str, JobPods]:
    ready = Counter(
        _job_uid_of(pod) for pod in objects.pods if is_true(pod.status.conditions, names.READY)
    )
    addresses = {_job_uid_of(pod): pod.status.podIP for pod in objects.pods if _is_pod_0(pod)}
    uids = {*ready, *addresses, *objects.statuses}
    return {
        uid: JobPods(ready[uid], addresses.get(uid, ""), objects.statuses.get(uid)) for uid in uids
    }


def _job_uid_of(pod: Pod) -> str:
    return pod.metadata.labels.get(names.POD_JOB_UID, "")


def _is_pod_0(pod: Pod) -> bool:
    """Whether it is the running pod 0 of its job, where the runtime answers."""
    return (
        pod.metadata.labels.get(names.POD_INDEX) == "0"
        and pod.status.phase == "Running"
        and not pod.metadata.deletionTimestamp
    )
