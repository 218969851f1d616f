"""PURE. One frozen snapshot of the cluster, built from the objects in the caches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

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
from cede.api.policy import ClusterPolicy
from cede.api.resources import FlavorResource
from cede.api.servers import Deployment, LeaderWorkerSet
from elastic_runtime.contract import Status
from scheduler.quota.cohort import CohortQuota, Queue
from scheduler.snapshot.admitted_workloads import AdmittedWorkloads
from scheduler.snapshot.cluster_quota import read_cohort_quota
from scheduler.snapshot.disagreement import Count, distrusted, find_disagreements
from scheduler.snapshot.ending_pods import read_ending
from scheduler.snapshot.free_capacity import NodeRoom, read_nodes
from scheduler.snapshot.guards import Guard, read_guards
from scheduler.snapshot.job_index import JobIndex, read_completed
from scheduler.snapshot.job_pods import JobPods
from scheduler.snapshot.kueue_timeouts import KueueTimeouts, read_timeouts
from scheduler.snapshot.memory import Kept
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.pending_queues import Line, PendingQueues
from scheduler.snapshot.pod_index import PodIndex
from scheduler.snapshot.servers import Server, read_servers, with_drains
from scheduler.snapshot.surpluses import Surplus, read_surpluses
from scheduler.snapshot.waiting_jobs import WaitingJob, read_waiting
from scheduler.snapshot.workload_index import WorkloadIndex
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload, PendingWorkloads


@dataclass(frozen=True, slots=True)
class RawObjects:
    """The objects in the caches at one moment."""

    workloads: Sequence[Workload] = ()
    jobs: Sequence[Job] = ()
    # of these two kinds, those with the label SERVER
    deployments: Sequence[Deployment] = ()
    leader_worker_sets: Sequence[LeaderWorkerSet] = ()
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
    pending: PendingWorkloads = field(default_factory=PendingWorkloads)
    admitted: tuple[AdmittedWorkload, ...] = ()
    # by name
    servers: tuple[Server, ...] = ()
    # elastic ones that wait at more than their smallest size
    waiting_jobs: tuple[WaitingJob, ...] = ()
    surpluses: tuple[Surplus, ...] = ()
    # uids of Workloads
    finished: frozenset[str] = frozenset()
    # by uid, the Jobs that are Complete among the targets of Cessions: their parallelism
    completed: Mapping[str, int] = field(default_factory=dict)
    # oldest first
    cessions: tuple[Cession, ...] = ()
    # what keeps released capacity for preemptors
    guards: tuple[Guard, ...] = ()
    # by the identity of a job that was stopped: its pods that have not ended
    ending: Mapping[str, JobPods] = field(default_factory=dict)
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
    # filled when they are first asked for
    _pending_by_uid: dict[str, PendingWorkload] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )
    _admitted_by_uid: dict[str, AdmittedWorkload] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )
    _admitted_by_identity: dict[str, AdmittedWorkload] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )

    _elastic: list[AdmittedWorkload] = field(
        init=False, default_factory=list, compare=False, repr=False
    )

    @property
    def elastic(self) -> Sequence[AdmittedWorkload]:
        """The admitted jobs that may change their size: a few of thousands."""
        if not self._elastic:
            self._elastic.extend(filter(attrgetter("allowed_sizes"), self.admitted))
        return self._elastic

    @property
    def scale_ups(self) -> Mapping[str, Sequence[PendingWorkload]]:
        """The pending scale-up slices, by the identity of the job that grows, elastic or not."""
        return self.pending.scale_ups

    def is_growing(self, job: AdmittedWorkload) -> bool:
        """Whether a scale-up slice of the job is pending or about to be, whoever asked for it."""
        return job.is_growing or job.identity in self.scale_ups

    def seconds_since(self, moment: float, now: float) -> float:
        """Of the clock of who leads. A moment after now is of a clock that was ahead: it counts
        from the beginning of this lead."""
        return now - (moment if moment <= now else min(self.led_since, now))

    def find_pending(self, uid: str) -> PendingWorkload | None:
        if not self._pending_by_uid:
            self._pending_by_uid.update({workload.uid: workload for workload in self.pending})
        return self._pending_by_uid.get(uid)

    def find_admitted(self, uid: str) -> AdmittedWorkload | None:
        if not self._admitted_by_uid:
            self._admitted_by_uid.update({workload.uid: workload for workload in self.admitted})
        return self._admitted_by_uid.get(uid)

    def find_job(self, identity: str) -> AdmittedWorkload | None:
        """The Workload with quota of the job with this identity."""
        if not self._admitted_by_identity:
            jobs = {workload.identity: workload for workload in reversed(self.admitted)}
            self._admitted_by_identity.update(jobs)
        return self._admitted_by_identity.get(identity)


class Memory:
    """What `take` read before: it reads only what changed. One pass at a time may use it."""

    def __init__(self) -> None:
        self.workloads = WorkloadIndex()
        self.jobs = JobIndex()
        self.pods = PodIndex()
        self.nodes = Kept[str, NodeRoom | None]()
        self.queues = Kept[str, Queue]()
        self.admitted = AdmittedWorkloads()
        self.pending = PendingQueues()

    def end_pass(self) -> None:
        for kept in (self.nodes, self.queues, self.admitted, self.pending):
            kept.end_pass()


def take(objects: RawObjects, memory: Memory | None = None) -> Snapshot:
    """Workloads of queues outside the Cohort are left out."""
    memory = memory or Memory()
    memory.workloads.update(objects.workloads)
    memory.jobs.update(objects.jobs)
    memory.pods.update(objects.pods)
    of_all_queues = memory.admitted.read(
        memory.workloads, memory.jobs, memory.pods, objects.statuses, objects.observations
    )
    quota = read_cohort_quota(
        objects.cluster_queues, objects.cohorts, objects.allocations, of_all_queues, memory.queues
    )
    admitted = tuple(workload for workload in of_all_queues if workload.queue in quota.queues)
    servers = read_servers(objects.deployments, objects.leader_worker_sets, admitted)
    admitted = with_drains(admitted, servers)
    disagreements = find_disagreements(objects.cluster_queues, quota, admitted)
    pending = _pending(objects, memory, quota.queues)
    cessions = sorted(objects.cessions, key=lambda c: (c.metadata.created, c.metadata.name))
    current = Snapshot(
        quota=quota,
        pending=pending,
        admitted=admitted,
        servers=servers,
        waiting_jobs=read_waiting(objects.jobs, pending),
        surpluses=read_surpluses(objects.jobs),
        finished=frozenset(memory.workloads.finished.values()),
        completed=read_completed(cessions, memory.jobs),
        cessions=tuple(cessions),
        disagreement=distrusted(disagreements, objects.believed),
        disagreements=disagreements,
        led_since=objects.led_since,
        guards=read_guards(objects.cluster_queues, of_all_queues, memory.workloads.waiting),
        ending=read_ending(cessions, (*pending, *admitted), memory.jobs, memory.pods),
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


def _pending(
    objects: RawObjects,
    memory: Memory,
    queues: Mapping[str, Queue],
) -> PendingWorkloads:
    """In Kueue's order, without those of other queues."""
    cluster_queues = {queue.metadata.name: queue for queue in objects.cluster_queues}
    lines = list[Line]()
    for local_queue in objects.local_queues:
        name = local_queue.spec.clusterQueue
        waiting = memory.workloads.line(local_queue.metadata.key)
        if waiting and name in queues:
            lines.append(Line(local_queue, cluster_queues[name], waiting))
    return memory.pending.read(lines, objects.resource_flavors)
