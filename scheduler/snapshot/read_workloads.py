"""PURE. Reads Kueue Workloads and the objects that own them, and counts as Kueue does."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import inf

from cede.api import durations, names, save_request, sizes
from cede.api.kueue import Job, PodSetAssignment, Workload
from cede.api.objects import Condition, Key, condition, is_true, unix, unix_or_zero
from cede.api.resources import Quota, amount
from cede.api.surplus import Base
from cede.api.workload_identity import identity, owner
from scheduler.quota.pod_sets import PodSetRequest
from scheduler.snapshot.job_pods import JobPods
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload


def has_quota(workload: Workload) -> bool:
    conditions = workload.status.conditions
    return (
        bool(workload.status.admission)
        and is_true(conditions, names.QUOTA_RESERVED)
        and not is_true(conditions, names.FINISHED)
    )


def replaced_slice(workload: Workload) -> Key | None:
    """The Workload that this scale-up slice of the same job replaces; None if it is not one."""
    note = workload.metadata.annotations.get(names.SLICE_REPLACEMENT_FOR, "")
    return (workload.metadata.namespace, note.rsplit("/", 1)[-1]) if note else None


def _job_key(workload: Workload) -> Key:
    """A Workload without owner is named by itself."""
    job = owner(workload)
    return workload.metadata.namespace, job.name if job else workload.metadata.name


def order_time(workload: Workload) -> float:
    """Unix seconds by which Kueue orders Workloads of one priority: the creation, or the eviction
    because its pods did not become ready or a check failed.

    Kueue: pkg/workload/workload.go, GetQueueOrderTimestamp, with the requeuing timestamp Eviction,
    which is its default.
    """
    evicted = condition(workload.status.conditions, names.EVICTED)
    if evicted and evicted.status == "True" and evicted.reason in REQUEUED_AT_THE_END:
        return unix(evicted.lastTransitionTime)
    return workload.metadata.created


REQUEUED_AT_THE_END = ("PodsReadyTimeout", "AdmissionCheck")
"""Reasons of an eviction after which a Workload waits behind those that came before it."""


def remaining_counts(workload: Workload) -> dict[str, int]:
    """Pods by pod set, without those that have finished: their quota is free again.

    Kueue: pkg/workload/workload.go, podSetsCountsAfterReclaim.
    """
    finished = {pods.name: pods.count for pods in workload.status.reclaimablePods}
    return {
        pod_set.name: max(0, pod_set.count - finished.get(pod_set.name, 0))
        for pod_set in workload.spec.podSets
    }


def read_pending(
    workload: Workload,
    queue: str,
    pod_sets: tuple[PodSetRequest, ...] = (),
    ineligible: str = "",
    *,
    is_scale_up: bool = False,
) -> PendingWorkload:
    """A job that was stopped after it grew keeps the annotation and replaces nothing: then it is no
    scale-up."""
    priority_class = workload.spec.priorityClassRef
    # Kueue: at least one
    template = workload.spec.podSets[0].template
    # Kueue: pkg/workload/workload.go, UnsetQuotaReservationWithCondition
    quota_reserved = condition(workload.status.conditions, names.QUOTA_RESERVED) or Condition()
    return PendingWorkload(
        key=workload.metadata.key,
        uid=workload.metadata.uid,
        queue=queue,
        priority=workload.spec.priority,
        created=workload.metadata.creationTimestamp or "",
        job=_job_key(workload),
        job_uid=identity(workload),
        priority_class=priority_class.name if priority_class else "",
        is_scale_up=is_scale_up,
        active=workload.spec.active,
        stopped_for=workload.metadata.labels.get(names.STOPPED_FOR, ""),
        pod_sets=pod_sets,
        ineligible=ineligible,
        queued_at=order_time(workload),
        requeued_at=template.metadata.annotations.get(names.REQUEUED_AT, ""),
        is_tried=quota_reserved.observedGeneration >= workload.metadata.generation,
    )


def read_admitted(workload: Workload, job: Job | None, pods: JobPods) -> AdmittedWorkload:
    """Raises ValueError if the Workload has no quota."""
    if workload.status.admission is None:
        raise ValueError(f"Workload {workload.metadata.name} is not admitted")
    size, usage = _assigned(workload)
    conditions = workload.status.conditions
    reserved = condition(conditions, names.QUOTA_RESERVED) or Condition()
    reserved_since = unix(reserved.lastTransitionTime)
    ready = condition(conditions, names.PODS_READY) or Condition()
    admitted = AdmittedWorkload(
        key=workload.metadata.key,
        uid=workload.metadata.uid,
        queue=workload.status.admission.clusterQueue,
        priority=workload.spec.priority,
        reserved_since=reserved_since,
        usage=usage,
        size=size,
        per_pod=_per_pod(usage, size),
        counted=usage,
        started=reserved_since,
        ready_pods=pods.ready,
        active=workload.spec.active,
        stopped_for=workload.metadata.labels.get(names.STOPPED_FOR, ""),
        job=_job_key(workload),
        job_uid=identity(workload),
        is_evicting=is_true(conditions, names.EVICTED) or not workload.spec.active,
        is_evicted=is_true(conditions, names.EVICTED),
        requested_per_node=pods.requested_per_node,
        node_of_index=pods.node_of_index,
        unready_since=unix(ready.lastTransitionTime) if ready.status == "False" else 0.0,
        # Kueue: pkg/controller/jobframework/reconciler.go, generatePodsReadyCondition
        is_recovering=ready.reason == "WaitForRecovery",
        stays_stopped=pods.stays_stopped or _stays_stopped(workload),
        deployment=pods.deployment,
        replica_set=pods.replica_set,
        is_ending=0.0 < pods.ends_by < inf,
    )
    if job:
        admitted = _with_job(admitted, job, pods)
    # Kueue: pkg/workload/workload.go, HasActiveQuotaReservation
    if workload.spec.active:
        return admitted
    return replace(admitted, usage=Counter(), counted=Counter())


def _stays_stopped(workload: Workload) -> bool:
    """As its pods say that are not there yet. Kueue copies no annotations of plain pods."""
    return any(
        pod_set.template.metadata.annotations.get(names.AFTER_PREEMPTION) == names.STOP
        for pod_set in workload.spec.podSets
    )


def _assigned(workload: Workload) -> tuple[int, Quota]:
    """How many pods have quota, and for what.

    Kueue: pkg/workload/workload.go, totalRequestsFromAdmission.
    """
    usage: Quota = Counter()
    size = 0
    counts = remaining_counts(workload)
    admission = workload.status.admission
    for assigned in admission.podSetAssignments if admission else ():
        # Kueue lowers the count of the pod set when a job shrinks, not the assignment
        count = min(counts.get(assigned.name, assigned.count), assigned.count)
        size += count
        for key, amount_of_all in _total_usage(assigned).items():
            is_whole = count == assigned.count
            usage[key] += amount_of_all if is_whole else amount_of_all // assigned.count * count
    return size, usage


def _total_usage(assigned: PodSetAssignment) -> Mapping[tuple[str, str], int]:
    return {
        (flavor, resource): amount(resource, assigned.resourceUsage.get(resource, 0))
        for resource, flavor in assigned.flavors.items()
    }


def _per_pod(usage: Quota, size: int) -> Quota:
    """Rounded up, so that pods × this is never less than the usage."""
    return Counter({key: -(-total // size) for key, total in usage.items()} if size else {})


def _with_job(admitted: AdmittedWorkload, job: Job, pods: JobPods) -> AdmittedWorkload:
    notes = job.metadata.annotations
    sizes_of_job = allowed_sizes(job)
    noted_size = sizes.parse_one(notes.get(names.DESIRED_SIZE, ""))
    parallelism = job.spec.parallelism
    size = admitted.size
    usage = admitted.usage
    # a shrink counts from the moment it is written; Kueue follows a moment later
    if sizes_of_job and 0 < parallelism < size:
        size = parallelism
        usage = admitted.quota_for(size)
    return replace(
        admitted,
        size=size,
        usage=usage,
        job_version=job.metadata.resourceVersion,
        started=unix(job.status.startTime) or admitted.reserved_since,
        parallelism=parallelism,
        allowed_sizes=sizes_of_job,
        desired_size=parallelism if noted_size is None else noted_size,
        grace_s=durations.parse_or_zero(notes.get(names.GRACE, "")),
        shrunk_at=unix_or_zero(notes.get(names.SHRUNK_AT, "")),
        addresses=pods.addresses,
        missing_pods=tuple(index for index in range(size) if index not in pods.ready_indexes),
        unplaced_pods=pods.unplaced,
        base=Base.parse(notes.get(names.SURPLUS_OF, "")),
        save=save_request.read(notes),
    )


def allowed_sizes(job: Job) -> tuple[int, ...]:
    """Ascending; empty if the Job is not elastic."""
    text = job.metadata.annotations.get(names.SIZES, "")
    if not text or job.metadata.annotations.get(names.ELASTIC_JOB) != "true":
        return ()
    try:
        return sizes.parse(text)
    except ValueError:
        # the webhook rejects such a text; a Job that passed without it is not elastic
        return ()
