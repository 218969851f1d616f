"""PURE. One frozen snapshot of the cluster, built from the objects in the caches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
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
from cede.api.objects import Key, is_true
from cede.api.policy import ClusterPolicy
from cede.api.resources import FlavorResource
from cede.api.workload_identity import identity
from elastic_runtime.contract import Status
from scheduler.cluster_quota import read_cohort_quota
from scheduler.cohort import CohortQuota, Queue
from scheduler.disagreement import Count, distrusted, find_disagreements
from scheduler.eligibility import why_ineligible
from scheduler.free_capacity import NodeRoom, read_nodes
from scheduler.job_pods import JobPods, group_key, pods_by_job
from scheduler.kueue_timeouts import KueueTimeouts, read_timeouts
from scheduler.observations import Observed
from scheduler.pod_sets import read_pod_sets
from scheduler.read_workloads import (
    has_quota,
    read_admitted,
    read_pending,
    remaining_counts,
    replaced_slice,
)
from scheduler.slices import added_pods
from scheduler.workloads import AdmittedWorkload, PendingWorkload


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
    resource_flavors: Sequence[ResourceFlavor] = ()
    allocations: Sequence[ComputeAllocation] = ()
    cessions: Sequence[Cession] = ()
    # counts that differ from Kueue's for so long that nobody waits for them
    believed: frozenset[Count] = frozenset()
    policies: Sequence[ClusterPolicy] = ()
    # by Job uid: the runtimes that answered lately
    statuses: Mapping[str, Status] = field(default_factory=dict)
    # by Job uid: what was seen of its runtime
    observations: Mapping[str, Observed] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a plan depends on, apart from the policy and the time."""

    quota: CohortQuota = field(default_factory=CohortQuota)
    # in Kueue's order, also those that Kueue would not try now
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
    # the counts in question, with their ClusterQueues
    disagreements: frozenset[Count] = frozenset()
    timeouts: KueueTimeouts = field(default_factory=KueueTimeouts)


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
    keys_with_quota = {workload.metadata.key for workload in with_quota}
    disagreements = find_disagreements(objects.cluster_queues, quota, admitted)
    cessions = sorted(objects.cessions, key=lambda c: (c.metadata.created, c.metadata.name))
    return Snapshot(
        quota=quota,
        pending=tuple(_pending(objects, current, keys_with_quota, quota.queues)),
        admitted=tuple(workload for workload in admitted if workload.queue in quota.queues),
        finished=frozenset(w.metadata.uid for w in objects.workloads if _is_finished(w)),
        cessions=tuple(cessions),
        disagreement=distrusted(disagreements, objects.believed),
        disagreements=disagreements,
        nodes=read_nodes(objects.nodes, objects.pods),
        timeouts=read_timeouts(objects.policies),
    )


def _is_finished(workload: Workload) -> bool:
    return is_true(workload.status.conditions, names.FINISHED)


def _admitted(objects: RawObjects, current: Iterable[Workload]) -> list[AdmittedWorkload]:
    jobs = {job.metadata.uid: job for job in objects.jobs}
    pods = pods_by_job(objects.pods, jobs, objects.statuses)
    admitted = list[AdmittedWorkload]()
    for workload in current:
        if has_quota(workload):
            group = group_key(*workload.metadata.key)
            own_pods = pods.get(identity(workload)) or pods.get(group) or JobPods()
            admitted.append(read_admitted(workload, jobs.get(identity(workload)), own_pods))
    return admitted


def _pending(
    objects: RawObjects,
    current: Sequence[Workload],
    with_quota: set[Key],
    queues: Mapping[str, Queue],
) -> list[PendingWorkload]:
    """In Kueue's order, without those of other queues."""
    local_queues = {queue.metadata.key: queue for queue in objects.local_queues}
    cluster_queues = {queue.metadata.name: queue for queue in objects.cluster_queues}
    flavors = {flavor.metadata.name: flavor.spec for flavor in objects.resource_flavors}
    reserved = {w.metadata.key: w for w in current if has_quota(w)}
    pending = list[PendingWorkload]()
    for workload in current:
        local_queue = local_queues.get((workload.metadata.namespace, workload.spec.queueName))
        name = local_queue.spec.clusterQueue if local_queue else ""
        if name not in queues or has_quota(workload) or _is_finished(workload):
            continue
        counts = remaining_counts(workload)
        pod_sets = read_pod_sets(workload, counts, queues[name].flavors, flavors)
        replaced = reserved.get(replaced_slice(workload) or ("", ""))
        if replaced:
            pod_sets = added_pods(pod_sets, replaced, queues[name].flavors)
        ineligible = why_ineligible(workload, local_queue, cluster_queues.get(name))
        pending.append(read_pending(workload, name, with_quota, pod_sets, ineligible))
    return sorted(pending, key=kueue_order)


def kueue_order(workload: PendingWorkload) -> tuple[int, float, str]:
    """Kueue: pkg/cache/queue/cluster_queue.go, baseCompareFunc."""
    return -workload.priority, workload.queued_at, workload.uid
