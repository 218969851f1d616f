"""PURE. One frozen snapshot of the cluster, built from the objects in the caches."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

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
    ResourceFlavorSpec,
    Workload,
)
from cede.api.objects import Key, is_true
from cede.api.policy import ClusterPolicy
from cede.api.resources import FlavorResource
from cede.api.workload_identity import identity
from elastic_runtime.contract import Status
from scheduler.quota.cohort import CohortQuota, Queue
from scheduler.quota.eligibility import why_ineligible
from scheduler.quota.flavors import Flavors
from scheduler.quota.pod_sets import read_pod_sets
from scheduler.snapshot.cluster_quota import read_cohort_quota
from scheduler.snapshot.disagreement import Count, distrusted, find_disagreements
from scheduler.snapshot.free_capacity import NodeRoom, read_nodes
from scheduler.snapshot.guards import Guard, read_guards
from scheduler.snapshot.job_pods import JobPods, combined
from scheduler.snapshot.kueue_timeouts import KueueTimeouts, read_timeouts
from scheduler.snapshot.memory import Kept, ReadObjects
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.pod_index import Owner, PodIndex, controller_uid
from scheduler.snapshot.read_workloads import (
    has_quota,
    read_admitted,
    read_pending,
    remaining_counts,
    replaced_slice,
)
from scheduler.snapshot.slices import added_pods
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload


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
    # scheduler/snapshot/overdue.py
    overdue: frozenset[str] = frozenset()
    policies: Sequence[ClusterPolicy] = ()
    # by Job uid: the runtimes that answered lately
    statuses: Mapping[str, Status] = field(default_factory=dict)
    # by Job uid: what was seen of its runtime
    observations: Mapping[str, Observed] = field(default_factory=dict)
    # Unix seconds since when this scheduler leads; 0.0 if it does not
    led_since: float = 0.0


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
    # what keeps released capacity for preemptors
    guards: tuple[Guard, ...] = ()
    # on which Kueue places pods by topology
    placed_flavors: frozenset[str] = frozenset()
    # the nodes that are Ready and schedulable
    nodes: tuple[NodeRoom, ...] = ()
    # for which the snapshot contradicts itself or Kueue's own count: nobody shrinks or stops for
    # what is missing of it
    disagreement: frozenset[FlavorResource] = frozenset()
    # the counts in question, with their ClusterQueues
    disagreements: frozenset[Count] = frozenset()
    # Unix seconds since when this scheduler leads: stages of a Cession are timed from then on
    led_since: float = 0.0
    timeouts: KueueTimeouts = field(default_factory=KueueTimeouts)
    # uids of Workloads that fit, and of Jobs that grow, for which Kueue did nothing for too long
    overdue: frozenset[str] = frozenset()
    # whether the quota_controller has given Kueue its own preemption
    kueue_preempts: bool = False


class _WorkloadFacts(NamedTuple):
    key: Key
    # of its job
    identity: str
    has_quota: bool
    is_finished: bool
    # the Workload that it replaces
    replaces: Key | None


def _read_facts(workload: Workload) -> _WorkloadFacts:
    is_finished = is_true(workload.status.conditions, names.FINISHED)
    return _WorkloadFacts(
        key=workload.metadata.key,
        identity=identity(workload),
        has_quota=has_quota(workload),
        is_finished=is_finished,
        replaces=replaced_slice(workload),
    )


class Memory:
    """What `take` read before: it reads only what changed. One pass at a time may use it."""

    def __init__(self) -> None:
        self.facts = ReadObjects(_read_facts)
        self.pods = PodIndex()
        self.nodes = Kept[NodeRoom]()
        self.admitted = Kept[AdmittedWorkload]()
        self.pending = Kept[PendingWorkload]()
        self.flavors = Kept[Mapping[str, ResourceFlavorSpec]]()

    def end_pass(self) -> None:
        for kept in (self.nodes, self.admitted, self.pending, self.flavors):
            kept.end_pass()


def take(objects: RawObjects, memory: Memory | None = None) -> Snapshot:
    """Workloads of queues outside the Cohort are left out."""
    memory = memory or Memory()
    memory.facts.update(objects.workloads)
    memory.pods.update(objects.pods)
    with_quota = [pair for pair in memory.facts if pair[1].has_quota]
    replaced = {facts.replaces for _, facts in with_quota}
    admitted = _admitted(objects, memory, replaced)
    quota = read_cohort_quota(
        objects.cluster_queues, objects.cohorts, objects.allocations, admitted
    )
    by_key = {facts.key: workload for workload, facts in with_quota}
    disagreements = find_disagreements(objects.cluster_queues, quota, admitted)
    cessions = sorted(objects.cessions, key=lambda c: (c.metadata.created, c.metadata.name))
    current = Snapshot(
        quota=quota,
        pending=tuple(_pending(objects, memory, by_key, replaced, quota.queues)),
        admitted=tuple(workload for workload in admitted if workload.queue in quota.queues),
        finished=frozenset(w.metadata.uid for w, facts in memory.facts if facts.is_finished),
        cessions=tuple(cessions),
        disagreement=distrusted(disagreements, objects.believed),
        disagreements=disagreements,
        led_since=objects.led_since,
        guards=read_guards(objects.cluster_queues, admitted),
        placed_flavors=frozenset(
            flavor.metadata.name for flavor in objects.resource_flavors if flavor.spec.topologyName
        ),
        nodes=tuple(read_nodes(objects.nodes, memory.pods, memory.nodes)),
        timeouts=read_timeouts(objects.policies),
        overdue=objects.overdue,
        kueue_preempts=any(policy.status.preemption == "Kueue" for policy in objects.policies),
    )
    memory.end_pass()
    return current


def _admitted(
    objects: RawObjects, memory: Memory, replaced: Collection[Key | None]
) -> list[AdmittedWorkload]:
    """Without slices whose replacement has quota: Kueue finishes them a moment later."""
    jobs = {job.metadata.uid: job for job in objects.jobs}
    children = _jobs_by_controller(objects.jobs)
    admitted = list[AdmittedWorkload]()
    for workload, facts in memory.facts:
        if not facts.has_quota or facts.key in replaced:
            continue
        uid = facts.identity
        job = jobs.get(uid)
        status = objects.statuses.get(uid)
        namespace, name = facts.key
        # the Workload of a group of pods has the group's name, and nothing controls it
        is_group = uid == workload.metadata.uid
        owner = Owner(namespace, group=name) if is_group else Owner(namespace, uid)
        made = (Owner(namespace, child) for child in children.get((namespace, uid), ()))
        parts = [memory.pods.shown(owner) for owner in (owner, *made)]
        sources = (workload, job, status, *parts)
        read = partial(_read_admitted, workload, job, parts, status)
        current = memory.admitted.get(workload.metadata.uid, sources, read)
        if observed := objects.observations.get(uid):
            current = replace(current, observed=observed)
        admitted.append(current)
    # the order of the memory depends on what changed last
    return sorted(admitted, key=lambda workload: workload.uid)


def _read_admitted(
    workload: Workload, job: Job | None, parts: Sequence[JobPods], status: Status | None
) -> AdmittedWorkload:
    return read_admitted(workload, job, combined(parts, status))


def _jobs_by_controller(jobs: Iterable[Job]) -> dict[Key, list[str]]:
    """The uids of the Jobs that another object made, such as a JobSet, by its uid."""
    children: dict[Key, list[str]] = defaultdict(list)
    for job in jobs:
        if job.metadata.ownerReferences:
            owner = controller_uid(job.metadata)
            children[job.metadata.namespace, owner].append(job.metadata.uid)
    return children


def _pending(
    objects: RawObjects,
    memory: Memory,
    with_quota: Mapping[Key, Workload],
    replaced: Collection[Key | None],
    queues: Mapping[str, Queue],
) -> list[PendingWorkload]:
    """In Kueue's order, without those of other queues."""
    local_queues = {queue.metadata.key: queue for queue in objects.local_queues}
    cluster_queues = {queue.metadata.name: queue for queue in objects.cluster_queues}
    flavors = memory.flavors.get(
        "", tuple(objects.resource_flavors), partial(_by_name, objects.resource_flavors)
    )
    pending = list[PendingWorkload]()
    for workload, facts in memory.facts:
        if facts.has_quota or facts.is_finished or facts.key in replaced:
            continue
        local_queue = local_queues.get((facts.key[0], workload.spec.queueName))
        if local_queue is None:
            continue
        queue = cluster_queues.get(local_queue.spec.clusterQueue)
        if queue is None or queue.metadata.name not in queues:
            continue
        old_slice = with_quota.get(facts.replaces) if facts.replaces else None
        sources = (workload, local_queue, queue, flavors, old_slice)
        read = partial(_read_pending, workload, local_queue, queue, flavors, old_slice)
        pending.append(memory.pending.get(workload.metadata.uid, sources, read))
    return sorted(pending, key=kueue_order)


def _by_name(flavors: Iterable[ResourceFlavor]) -> dict[str, ResourceFlavorSpec]:
    return {flavor.metadata.name: flavor.spec for flavor in flavors}


def _read_pending(
    workload: Workload,
    local_queue: LocalQueue,
    queue: ClusterQueue,
    flavors: Flavors,
    old_slice: Workload | None,
) -> PendingWorkload:
    names_of_flavors = {f.name for group in queue.spec.resourceGroups for f in group.flavors}
    pod_sets = read_pod_sets(workload, remaining_counts(workload), names_of_flavors, flavors)
    if old_slice:
        pod_sets = added_pods(pod_sets, old_slice, names_of_flavors)
    ineligible = why_ineligible(workload, local_queue, queue)
    return read_pending(
        workload, queue.metadata.name, pod_sets, ineligible, is_scale_up=bool(old_slice)
    )


def kueue_order(workload: PendingWorkload) -> tuple[int, float, str]:
    """Kueue: pkg/cache/queue/cluster_queue.go, baseCompareFunc."""
    return -workload.priority, workload.queued_at, workload.uid
