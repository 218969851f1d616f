"""PURE. The simulated cluster as the Snapshot that the scheduler plans on."""

from collections import Counter
from collections.abc import Iterable, Mapping

from cede.api import private_quota
from cede.api.cession import Cession
from cede.api.kueue import FlavorQuotas
from cede.api.kueue import ResourceGroup as KueueGroup
from cede.api.kueue import ResourceQuota as KueueQuota
from cede.api.objects import rfc3339
from cede.api.resources import Quota, Resources
from elastic_runtime.contract import State, Status
from scheduler.quota.cohort import CohortQuota, ResourceGroup
from scheduler.quota.cohort import Queue as CohortQueue
from scheduler.quota.pod_sets import PodSetRequest
from scheduler.simulate.assumptions import Assumptions
from scheduler.simulate.cluster import Cluster
from scheduler.simulate.objects import Guard as SimulatedGuard
from scheduler.simulate.objects import Job, Queue, Workload
from scheduler.snapshot.cluster_quota import as_before, read_quotas
from scheduler.snapshot.free_capacity import NodeRoom
from scheduler.snapshot.guards import Guard
from scheduler.snapshot.pending_queues import kueue_order
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.waiting_jobs import WaitingJob
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload, PendingWorkloads

FLAVOR = "accelerator"
RESOURCE = "nvidia.com/gpu"
KEY = (FLAVOR, RESOURCE)
COHORT = "cede"
NODE = "all-nodes"
ON_HOLD = "its ClusterQueue is on hold"
ONE: Quota = Counter({KEY: 1})


class Picture:
    """Makes Snapshots, and keeps what has not changed: most jobs have not."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._admitted: dict[str, tuple[object, AdmittedWorkload]] = {}

    def take(self, cessions: Iterable[Cession]) -> Snapshot:
        """What the scheduler's own caches would show now. The cluster is one large node."""
        kueue = self._cluster.kueue
        pending = sorted(_pending(self._cluster), key=kueue_order)
        capacity = sum(queue.quota.nominal for queue in kueue.queues.values())
        used = sum(queue.usage for queue in kueue.queues.values())
        admitted = tuple(map(self._of_admitted, kueue.admitted.values()))
        self._admitted = {name: self._admitted[name] for name in kueue.admitted}
        return Snapshot(
            quota=quota_of(kueue.queues, self._cluster.now, shares=kueue.settings.shares),
            pending=PendingWorkloads(pending),
            admitted=admitted,
            waiting_jobs=tuple(_waiting_jobs(self._cluster.jobs.values())),
            finished=frozenset(job.workload.uid for job in self._cluster.ended),
            cessions=tuple(cessions),
            guards=tuple(_guard(cession, guard) for cession, guard in kueue.guards.items()),
            nodes=(NodeRoom(name=NODE, free=Resources({RESOURCE: capacity - used})),),
        )

    def _of_admitted(self, workload: Workload) -> AdmittedWorkload:
        job = workload.job
        # a step is only recorded of a job that was asked for a size
        now = self._cluster.now if job.cession else 0.0
        state = (
            now,
            workload.count,
            workload.active,
            workload.is_evicting,
            job.ready,
            job.version,
            job.training,
            job.wanted,
            job.is_changing,
            job.is_parked,
            job.answers,
            job.saved_at,
        )
        known = self._admitted.get(workload.name)
        if known and known[0] == state:
            return known[1]
        fresh = _admitted(workload, self._cluster.now, self._cluster.assumptions)
        self._admitted[workload.name] = state, fresh
        return fresh


def _guard(cession: str, guard: SimulatedGuard) -> Guard:
    """Kueue admits it, and reads its queue, at once."""
    return Guard(
        cession,
        in_cohort=guard.in_cohort,
        is_observed=True,
        is_admitted=guard.is_admitted,
        usage=Counter({KEY: guard.accelerators * guard.is_admitted}),
        nominal=Counter({KEY: guard.accelerators * (not guard.in_cohort)}),
        is_stopped=not guard.is_admitted,
    )


def quota_of(queues: Mapping[str, Queue], now: float, *, shares: bool) -> CohortQuota:
    """The quota as the scheduler reads it."""
    cohort = COHORT if shares else ""
    return CohortQuota({name: _queue(queue, cohort, now) for name, queue in queues.items()})


def _queue(queue: Queue, cohort: str, now: float) -> CohortQueue:
    quota = queue.quota
    note = private_quota.parse(queue.private)
    amounts = KueueQuota(RESOURCE, quota.nominal, quota.borrowing_limit, quota.lending_limit)
    written = KueueGroup((RESOURCE,), (FlavorQuotas(FLAVOR, (amounts,)),))
    return CohortQueue(
        name=quota.name,
        cohort=cohort,
        quotas=as_before(read_quotas([written]), note),
        written=(written,),
        private=note,
        usage=Counter({KEY: queue.usage}),
        strategy=queue.strategy,
        version=str(queue.version),
        weight=quota.weight,
        is_observed=now >= queue.observed_at,
        groups=(ResourceGroup((RESOURCE,), (FLAVOR,)),),
    )


def _pending(cluster: Cluster) -> Iterable[PendingWorkload]:
    for job in cluster.jobs.values():
        queue = cluster.kueue.queues[job.spec.team]
        if job.workload.reserved_since is None:
            yield _waiting(job.workload, queue)
        if job.scale_up:
            yield _waiting(job.scale_up, queue)


def _why_ineligible(workload: Workload, queue: Queue) -> str:
    if not workload.active:
        return "it is not active"
    return ON_HOLD if queue.on_hold else ""


def _waiting(workload: Workload, queue: Queue) -> PendingWorkload:
    job = workload.job
    # a slice asks for what it adds
    count = workload.count - (workload.replaces.count if workload.replaces else 0)
    return PendingWorkload(
        key=(job.spec.team, workload.name),
        uid=workload.uid,
        queue=job.spec.team,
        priority=job.spec.priority,
        created=rfc3339(workload.created, micro=True),
        job=(job.spec.team, job.spec.name),
        job_uid=job.uid,
        is_scale_up=workload.replaces is not None,
        active=workload.active,
        stopped_for=workload.stopped_for,
        pod_sets=(PodSetRequest("main", count, Resources({RESOURCE: 1})),),
        ineligible=_why_ineligible(workload, queue),
        queued_at=workload.created,
        requeued_at=workload.requeued_at,
        is_tried=workload.is_tried,
    )


def _waiting_jobs(jobs: Iterable[Job]) -> Iterable[WaitingJob]:
    for job in jobs:
        sizes = job.spec.sizes
        if sizes and job.workload.reserved_since is None and job.parallelism > sizes[0]:
            key = (job.spec.team, job.spec.name)
            yield WaitingJob(key, job.uid, str(job.version), sizes[0])


def _admitted(workload: Workload, now: float, assumptions: Assumptions) -> AdmittedWorkload:
    job = workload.job
    size = min(workload.count, job.parallelism) if job.is_elastic else workload.count
    runs = job.is_elastic and job.ready > 0
    return AdmittedWorkload(
        key=(job.spec.team, workload.name),
        uid=workload.uid,
        queue=job.spec.team,
        priority=job.spec.priority,
        reserved_since=workload.reserved_since or 0.0,
        usage=Counter({KEY: 0 if workload.is_freed else size}),
        size=size,
        per_pod=ONE,
        job=(job.spec.team, job.spec.name),
        job_uid=job.uid,
        job_version=str(job.version),
        started=job.started,
        parallelism=job.parallelism,
        ready_pods=job.ready,
        node_of_index=dict.fromkeys(range(size), NODE),
        allowed_sizes=job.spec.sizes,
        desired_size=job.spec.accelerators,
        shrunk_at=job.shrunk_at,
        addresses=(job.spec.name,) if runs else (),
        runtime=status(job, now, assumptions) if runs and job.answers else None,
        active=workload.active,
        stopped_for=workload.stopped_for,
        is_evicting=workload.is_evicting,
        is_evicted=workload.is_evicting,
        # the room of a pod that starts is in use as well
        requested_per_node={NODE: {RESOURCE: size}},
        unready_since=0.0 if job.ready >= size else job.started,
    )


def status(job: Job, now: float, assumptions: Assumptions) -> Status:
    """What the job's runtime reports: it counts a step in every `step_s` seconds."""
    return Status(
        state=_state(job),
        size=job.training,
        wanted=job.wanted,
        cession=job.cession,
        step=int(now / assumptions.step_s),
        durableStep=int(job.saved_at / assumptions.step_s),
        stepSeconds=assumptions.step_s,
    )


def _state(job: Job) -> str:
    if job.is_parked:
        return State.STOPPED
    if job.is_changing:
        return State.RESIZING if job.wanted else State.STOPPING
    return State.TRAINING if job.training else State.STARTING
