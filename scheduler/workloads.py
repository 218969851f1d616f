"""PURE. Kueue Workloads, with and without quota, and the Jobs that own them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cede.api import durations, names, sizes
from cede.api.kueue import Job, Workload
from cede.api.objects import Condition, Key, condition, is_true, unix
from cede.api.resources import Quota, Resources, amount, total
from cede.api.workload_identity import identity, owner
from elastic_runtime.contract import Status
from scheduler.pod_sets import PodSetRequest, read_pod_sets


@dataclass(frozen=True, slots=True)
class PendingWorkload:
    """A Workload without quota."""

    key: Key
    uid: str
    queue: str
    priority: int
    # RFC 3339, as on the wire
    created: str
    # what all pods request together
    requested: Resources
    job: Key = ("", "")
    job_uid: str = ""
    priority_class: str = ""
    # True if it is a scale-up slice of an admitted job
    is_scale_up: bool = False
    active: bool = True
    # the Cession that it was stopped for; empty if it was not stopped by us
    stopped_for: str = ""
    pod_sets: tuple[PodSetRequest, ...] = ()
    # why Kueue would not try to admit it now; empty if it would
    ineligible: str = ""
    # Unix seconds by which Kueue orders Workloads of one priority
    queued_at: float = 0.0

    @property
    def identity(self) -> str:
        """A uid that stays the same when the job is resized: the Job's; without a Job, the
        Workload's."""
        return self.job_uid or self.uid

    @property
    def name(self) -> str:
        return self.job[1] or self.key[1]


@dataclass(frozen=True, slots=True)
class AdmittedWorkload:
    """A Workload with quota, and the Job that owns it."""

    key: Key
    uid: str
    queue: str
    priority: int
    # Unix seconds of the quota reservation; a scale-up is a new reservation
    reserved_since: float
    usage: Quota
    # pods that have quota
    size: int
    # what one pod uses; the mean if the Workload has several pod sets
    per_pod: Quota
    job: Key = ("", "")
    job_uid: str = ""
    job_version: str = ""
    # Unix seconds of the first start of its Job, whatever its size was since
    started: float = 0.0
    parallelism: int = 0
    ready_pods: int = 0
    # ascending; empty if the job is not elastic
    allowed_sizes: tuple[int, ...] = ()
    desired_size: int = 0
    grace_s: float = 0.0
    # Unix seconds of the last shrink; 0.0 if there was none
    shrunk_at: float = 0.0
    # IP address of pod 0; empty if it does not run
    address: str = ""
    # None if the runtime did not answer lately
    runtime: Status | None = None
    active: bool = True
    # the Cession that it was stopped for; empty if it was not stopped by us
    stopped_for: str = ""
    # of the object that owns the Workload, such as JobSet; empty if none does
    kind: str = ""
    # True if Kueue evicts it: its quota comes free without anybody's doing
    is_evicting: bool = False
    # its pods by node
    pods_per_node: Mapping[str, int] = field(default_factory=dict)
    # Unix seconds since when not all of its pods are ready; 0.0 if they are
    unready_since: float = 0.0

    @property
    def identity(self) -> str:
        """A uid that stays the same when the job is resized: the Job's; without a Job, the
        Workload's."""
        return self.job_uid or self.uid

    @property
    def name(self) -> str:
        return self.job[1] or self.key[1]

    @property
    def smallest_size(self) -> int:
        return self.allowed_sizes[0] if self.allowed_sizes else self.size

    @property
    def is_growing(self) -> bool:
        """Whether its Job has more pods than quota, so that a scale-up slice is pending."""
        return bool(self.allowed_sizes) and self.parallelism > self.size

    @property
    def unsaved_pod_seconds(self) -> float:
        """The work that a stop would lose: pods × seconds since the newest checkpoint. 0.0 if the
        runtime does not answer."""
        if self.runtime is None:
            return 0.0
        steps = self.runtime.step - self.runtime.durableStep
        return steps * self.runtime.stepSeconds * self.size

    def quota_for(self, pods: int) -> Quota:
        """What this number of its pods uses."""
        return Counter({key: amount * pods for key, amount in self.per_pod.items()})


@dataclass(frozen=True, slots=True)
class JobPods:
    """What the pods and the runtime of one Job show."""

    ready: int = 0
    # IP address of pod 0
    address: str = ""
    runtime: Status | None = None


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
    job = owner(workload)
    return workload.metadata.namespace, job.name if job else ""


def read_pending(workload: Workload, queue: str, with_quota: set[Key]) -> PendingWorkload:
    """`with_quota` are the keys of the Workloads that have quota."""
    priority_class = workload.spec.priorityClassRef
    pod_sets = read_pod_sets(workload.spec.podSets)
    return PendingWorkload(
        key=workload.metadata.key,
        uid=workload.metadata.uid,
        queue=queue,
        priority=workload.spec.priority,
        created=workload.metadata.creationTimestamp or "",
        requested=total(pod_set.requested for pod_set in pod_sets),
        job=_job_key(workload),
        job_uid=identity(workload),
        priority_class=priority_class.name if priority_class else "",
        # a job that was stopped after it grew keeps the annotation and replaces nothing
        is_scale_up=replaced_slice(workload) in with_quota,
        active=workload.spec.active,
        stopped_for=workload.metadata.labels.get(names.STOPPED_FOR, ""),
        pod_sets=pod_sets,
        queued_at=workload.metadata.created,
    )


def read_admitted(workload: Workload, job: Job | None, pods: JobPods) -> AdmittedWorkload:
    """Raises ValueError if the Workload has no quota."""
    if workload.status.admission is None:
        raise ValueError(f"Workload {workload.metadata.name} is not admitted")
    size, usage = _assigned(workload)
    reserved = condition(workload.status.conditions, names.QUOTA_RESERVED) or Condition()
    reserved_since = unix(reserved.lastTransitionTime)
    job_owner = owner(workload)
    admitted = AdmittedWorkload(
        key=workload.metadata.key,
        uid=workload.metadata.uid,
        queue=workload.status.admission.clusterQueue,
        priority=workload.spec.priority,
        reserved_since=reserved_since,
        usage=usage,
        size=size,
        per_pod=_per_pod(usage, size),
        job=_job_key(workload),
        job_uid=identity(workload),
        started=reserved_since,
        active=workload.spec.active,
        stopped_for=workload.metadata.labels.get(names.STOPPED_FOR, ""),
        kind=job_owner.kind if job_owner else "",
    )
    return _with_job(admitted, job, pods) if job else admitted


def _assigned(workload: Workload) -> tuple[int, Quota]:
    """How many pods have quota, and for what."""
    usage: Quota = Counter()
    size = 0
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.podSets}
    admission = workload.status.admission
    for assigned in admission.podSetAssignments if admission else ():
        # Kueue lowers the count of the pod set when a job shrinks, not the assignment
        count = min(counts.get(assigned.name, assigned.count), assigned.count)
        size += count
        for resource, flavor in assigned.flavors.items():
            total = amount(resource, assigned.resourceUsage.get(resource, 0))
            usage[flavor, resource] += total * count // assigned.count if assigned.count else 0
    return size, usage


def _per_pod(usage: Quota, size: int) -> Quota:
    """Rounded up, so that pods × this is never less than the usage."""
    return Counter({key: -(-total // size) for key, total in usage.items()} if size else {})


def _with_job(admitted: AdmittedWorkload, job: Job, pods: JobPods) -> AdmittedWorkload:
    notes = job.metadata.annotations
    allowed_sizes = _allowed_sizes(job)
    noted_size = sizes.parse_one(notes.get(names.DESIRED_SIZE, ""))
    parallelism = job.spec.parallelism
    size = admitted.size
    usage = admitted.usage
    # a shrink counts from the moment it is written; Kueue follows a moment later
    if allowed_sizes and 0 < parallelism < size:
        size = parallelism
        usage = admitted.quota_for(size)
    return replace(
        admitted,
        size=size,
        usage=usage,
        job_version=job.metadata.resourceVersion,
        started=unix(job.status.startTime) or admitted.reserved_since,
        parallelism=parallelism,
        ready_pods=pods.ready,
        allowed_sizes=allowed_sizes,
        desired_size=parallelism if noted_size is None else noted_size,
        grace_s=durations.parse_or_zero(notes.get(names.GRACE, "")),
        shrunk_at=_unix_or_zero(notes.get(names.SHRUNK_AT, "")),
        address=pods.address,
        runtime=pods.runtime,
    )


def _allowed_sizes(job: Job) -> tuple[int, ...]:
    text = job.metadata.annotations.get(names.SIZES, "")
    if not text or job.metadata.annotations.get(names.ELASTIC_JOB) != "true":
        return ()
    try:
        return sizes.parse(text)
    except ValueError:
        # the webhook rejects such a text; a Job that passed without it is not elastic
        return ()


def _unix_or_zero(text: str) -> float:
    """0.0 if the text is not a time: users may write anything into the annotations of a Job."""
    try:
        return unix(text)
    except (ValueError, OverflowError):
        return 0.0
