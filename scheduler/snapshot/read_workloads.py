"""PURE. Reads Kueue Workloads and the objects that own them, and counts as Kueue does."""

from collections import Counter
from dataclasses import replace
from math import inf

from cede.api import durations, names, save_request, sizes
from cede.api.kueue import Job, Workload
from cede.api.objects import (
    LEADER_WORKER_SETS,
    Condition,
    Key,
    condition,
    is_true,
    unix,
    unix_or_zero,
)
from cede.api.resources import Quota
from cede.api.surplus import Base
from cede.api.workload_identity import identity, owner
from cede.api.workload_quota import assigned
from scheduler.quota.pod_sets import PodSetRequest
from scheduler.snapshot.job_pods import JobPods
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload


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
    evicted = condition(workload.status.conditions, names.EVICTED) or Condition()
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
        evicted=evicted.message.rstrip(".") if evicted.status == "True" else "",
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
    size, usage = assigned(workload)
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
        ended_pods=sum(ended.count for ended in workload.status.reclaimablePods),
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
        leader_worker_set=_leader_worker_set(workload),
        group_index=sizes.parse_one(workload.metadata.annotations.get(names.GROUP_INDEX, "")) or 0,
        is_ending=0.0 < pods.ends_by < inf,
    )
    if job:
        admitted = _with_job(admitted, job, pods)
    # Kueue: pkg/workload/workload.go, HasActiveQuotaReservation
    if workload.spec.active:
        return admitted
    return replace(admitted, usage=Counter(), counted=Counter())


def _leader_worker_set(workload: Workload) -> str:
    """The name of the one whose group it is; empty for any other Workload."""
    job = owner(workload)
    return job.name if job and job.kind == LEADER_WORKER_SETS.kind else ""


def _stays_stopped(workload: Workload) -> bool:
    """As its pods say that are not there yet. Kueue copies no annotations of plain pods."""
    return any(
        pod_set.template.metadata.annotations.get(names.AFTER_PREEMPTION) == names.STOP
        for pod_set in workload.spec.podSets
    )


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
        keeps_completions=not sizes_of_job and not _has_an_index_for_each_pod(job),
        allowed_sizes=sizes_of_job,
        desired_size=parallelism if noted_size is None else noted_size,
        grace_s=durations.parse_or_zero(notes.get(names.GRACE, "")),
        shrunk_at=unix_or_zero(notes.get(names.SHRUNK_AT, "")),
        addresses=pods.addresses,
        missing_pods=_missing(size, pods) if sizes_of_job else (),
        completed=pods.completed_indexes,
        unplaced_pods=pods.unplaced,
        absent_pods=max(0, size - job.status.active - job.status.succeeded),
        failing_pods=pods.failing,
        base=Base.parse(notes.get(names.SURPLUS_OF, "")),
        save=save_request.read(notes),
    )


def _missing(size: int, pods: JobPods) -> tuple[int, ...]:
    """Of the indexes that an elastic job may have. A Job that passed without the webhook may state
    any size."""
    present = pods.ready_indexes | pods.completed_indexes
    return tuple(index for index in range(min(size, sizes.MAX_SIZE)) if index not in present)


def _has_an_index_for_each_pod(job: Job) -> bool:
    """Kubernetes changes the completions of no other Job (KEP-3715)."""
    spec = job.spec
    return spec.completionMode == "Indexed" and spec.completions == spec.parallelism


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
