"""What the scheduler sees, with defaults: a test case names only what it is about.

Two teams own four accelerators each: `vision`, whose job `claim` is pending, and `research`, whose
job `gpt` has eight.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from cede.api.cession import Cession
from cede.api.objects import rfc3339, unix
from cede.api.reasons import CessionReason
from cede.api.resources import FlavorResource, Quota, Resources
from elastic_runtime.contract import State, Status
from scheduler.quota.cohort import CohortQuota, Queue, ResourceGroup, ResourceQuota
from scheduler.quota.pod_sets import PodSetRequest
from scheduler.snapshot.free_capacity import NodeRoom
from scheduler.snapshot.job_pods import JobPods
from scheduler.snapshot.kueue_timeouts import KueueTimeouts
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload, PendingWorkloads

GPU = "nvidia.com/gpu"
FLAVOR = "a100"
KEY = (FLAVOR, GPU)
NOW = 10_000.0
RESERVED = rfc3339(NOW - 10)
NODES = (NodeRoom("node-1", {"type": FLAVOR}, Resources({GPU: 100})),)


def gpus(count: int) -> Quota:
    return Counter({KEY: count})


def queue(
    name: str,
    nominal: int = 4,
    used: int = 0,
    borrowing_limit: int | None = None,
    lending_limit: int | None = None,
    *,
    strategy: str = "BestEffortFIFO",
    preempts_own_jobs: bool = True,
    managed: bool = True,
) -> Queue:
    return Queue(
        name=name,
        cohort="cede",
        quotas={KEY: ResourceQuota(nominal, borrowing_limit, lending_limit)},
        usage=gpus(used),
        strategy=strategy,
        version="7",
        preempts_own_jobs=preempts_own_jobs,
        managed=managed,
        groups=(ResourceGroup((GPU,), (FLAVOR,)),),
    )


def cohort_quota(*queues: Queue, cohort_nominal: int = 0) -> CohortQuota:
    return CohortQuota({queue.name: queue for queue in queues}, gpus(cohort_nominal))


def used_more(quota: CohortQuota, name: str, amounts: Quota) -> CohortQuota:
    """Built anew, with a queue that uses so much more."""
    usage: Quota = Counter(quota.queues[name].usage)
    usage.update(amounts)
    queue = replace(quota.queues[name], usage=usage)
    return CohortQuota({**quota.queues, name: queue}, quota.cohort_nominal)


def pending(
    name: str = "claim",
    queue: str = "vision",
    pods: int = 4,
    priority: int = 50,
    *,
    requested: Resources | None = None,
    created: str = rfc3339(NOW),
    job_uid: str = "",
    is_scale_up: bool = False,
    active: bool = True,
    stopped_for: str = "",
    pod_sets: tuple[PodSetRequest, ...] | None = None,
    ineligible: str = "",
    queued_at: float | None = None,
) -> PendingWorkload:
    """By default each of its pods requests one accelerator."""
    alike = PodSetRequest("main", pods, Resources({GPU: 1}))
    if requested is not None:
        alike = PodSetRequest("main", 1, requested)
    sets = (alike,) if pod_sets is None else pod_sets
    return PendingWorkload(
        key=(queue, f"job-{name}"),
        uid=f"uid-{name}",
        queue=queue,
        priority=priority,
        created=created,
        job=(queue, name),
        job_uid=job_uid,
        is_scale_up=is_scale_up,
        active=active,
        stopped_for=stopped_for,
        pod_sets=sets,
        ineligible=ineligible if active else "it is not active",
        queued_at=unix(created) if queued_at is None else queued_at,
    )


def admitted(
    name: str = "gpt",
    queue: str = "research",
    size: int = 8,
    allowed_sizes: tuple[int, ...] = tuple(range(2, 9)),
    *,
    priority: int = 50,
    reserved_since: float = NOW - 1000,
    started: float | None = None,
    parallelism: int | None = None,
    ready_pods: int | None = None,
    desired_size: int | None = None,
    grace_s: float = 0.0,
    shrunk_at: float = 0.0,
    job_uid: str | None = None,
    addresses: tuple[str, ...] = ("10.0.0.1",),
    runtime: Status | None = None,
    active: bool = True,
    stopped_for: str = "",
    is_evicting: bool = False,
    requested_per_node: Mapping[str, Mapping[str, int]] | None = None,
    unready_since: float = 0.0,
    counted: Quota | None = None,
    is_recovering: bool = True,
    missing_pods: tuple[int, ...] = (),
    node_of_index: Mapping[int, str] | None = None,
    unplaced_pods: int = 0,
    ended_pods: int = 0,
    completed: Collection[int] = (),
    observed: Observed | None = None,
) -> AdmittedWorkload:
    """By default it has all its pods, and wants the largest of its sizes."""
    largest = max(allowed_sizes, default=size)
    return AdmittedWorkload(
        key=(queue, f"job-{name}"),
        uid=f"uid-{name}",
        queue=queue,
        priority=priority,
        reserved_since=reserved_since,
        usage=gpus(size),
        size=size,
        per_pod=gpus(1),
        job=(queue, name),
        job_uid=f"job-uid-{name}" if job_uid is None else job_uid,
        job_version="7",
        started=reserved_since if started is None else started,
        parallelism=size if parallelism is None else parallelism,
        ready_pods=size if ready_pods is None else ready_pods,
        allowed_sizes=allowed_sizes,
        desired_size=largest if desired_size is None else desired_size,
        grace_s=grace_s,
        shrunk_at=shrunk_at,
        addresses=addresses,
        runtime=runtime,
        active=active,
        stopped_for=stopped_for,
        is_evicting=is_evicting,
        requested_per_node=requested_per_node or {},
        unready_since=unready_since,
        counted=gpus(size) if counted is None else counted,
        is_recovering=is_recovering,
        missing_pods=missing_pods,
        node_of_index=node_of_index or {},
        unplaced_pods=unplaced_pods,
        ended_pods=ended_pods,
        completed=frozenset(completed),
        observed=observed or Observed(),
    )


def runtime_status(
    size: int = 8,
    wanted: int = 0,
    cession: str = "",
    *,
    state: str = State.TRAINING,
    step: int = 0,
    durable_step: int = 0,
    step_seconds: float = 0.0,
    parked: tuple[int, ...] = (),
    save_message: str = "",
) -> Status:
    return Status(
        state=state,
        size=size,
        wanted=wanted,
        cession=cession,
        step=step,
        durableStep=durable_step,
        stepSeconds=step_seconds,
        parked=parked,
        saveMessage=save_message,
    )


def snapshot(
    quota: CohortQuota | None = None,
    *,
    pending: Sequence[PendingWorkload] = (),
    admitted: Sequence[AdmittedWorkload] = (),
    finished: frozenset[str] = frozenset(),
    cessions: Sequence[Cession] = (),
    nodes: tuple[NodeRoom, ...] = NODES,
    disagreement: frozenset[FlavorResource] = frozenset(),
    is_reserved: bool = False,
    led_since: float = 0.0,
    timeouts: KueueTimeouts | None = None,
    overdue: frozenset[str] = frozenset(),
    kueue_preempts: bool = False,
    ending: Mapping[str, JobPods] | None = None,
) -> Snapshot:
    """By default the queues use what the admitted Workloads use, and keep capacity for the
    preemptors of open Cessions; that of vision also if `is_reserved`."""
    usage = Counter[str]()
    for workload in admitted:
        usage[workload.queue] += workload.usage[KEY]
    strict = {cession.spec.preemptor.queue for cession in cessions if cession.open}
    strict |= {"vision"} if is_reserved else set()
    teams = [
        queue(name, used=usage[name], strategy="StrictFIFO" if name in strict else "BestEffortFIFO")
        for name in ("vision", "research")
    ]
    return Snapshot(
        quota=quota or cohort_quota(*teams),
        pending=PendingWorkloads(pending),
        admitted=tuple(admitted),
        finished=finished,
        cessions=tuple(cessions),
        nodes=nodes,
        disagreement=disagreement,
        led_since=led_since,
        timeouts=timeouts or KueueTimeouts(),
        overdue=overdue,
        kueue_preempts=kueue_preempts,
        ending=ending or {},
    )


def cession(
    phase: str = "Pending",
    to_size: int = 4,
    how: str = "Shrink",
    grace_s: int = 30,
    **status: object,
) -> Cession:
    """`gpt` of research is the target, `claim` of vision the preemptor, for which capacity has been
    kept long enough. `status` are fields of the status."""
    target = {
        "namespace": "research",
        "job": "gpt",
        "uid": "job-uid-gpt",
        "workload": "job-gpt",
        "queue": "research",
        "fromSize": 8,
        "toSize": to_size,
        "how": how,
        "graceSeconds": grace_s,
    }
    preemptor = {
        "namespace": "vision",
        "workload": "job-claim",
        "uid": "uid-claim",
        "job": "claim",
        "queue": "vision",
        "creationTime": rfc3339(NOW - 1),
    }
    spec = {
        "preemptor": preemptor,
        "reason": CessionReason.RECLAIM_OWN_QUOTA,
        "need": [{"flavor": FLAVOR, "resource": GPU, "amount": "4"}],
        "targets": [target],
        "why": "because",
    }
    metadata = {"name": "c-1", "generation": 1, "creationTimestamp": rfc3339(NOW)}
    return Cession.model_validate(
        {
            "metadata": metadata,
            "spec": spec,
            "status": {"phase": phase, "reservedTime": RESERVED, **status},
        }
    )
