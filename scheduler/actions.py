"""PURE. The actions that a plan consists of. The controller performs them in order."""

from collections.abc import Mapping
from dataclasses import dataclass

from cede.api.cession import Cession, CessionSpec
from cede.api.cession_status import CessionStatus
from cede.api.objects import Json, Key
from cede.api.reasons import SchedulerEvent
from cede.api.resources import FlavorResource, describe_amounts
from cede.api.surplus import Base
from scheduler.finish_actions import ReportFinish
from scheduler.save_actions import AnswerSave, RequestSave
from scheduler.server_actions import DrainPod, ScaleServer
from scheduler.snapshot.workloads import AdmittedWorkload

LogFields = dict[str, object]


@dataclass(frozen=True, slots=True)
class OpenCession:
    """Create a Cession."""

    cession: Cession

    @property
    def log_fields(self) -> LogFields:
        return {"cession": self.cession.metadata.name, "why": self.cession.spec.why}


@dataclass(frozen=True, slots=True)
class UpdateCession:
    """Write the status of a Cession."""

    name: str
    status: CessionStatus

    @property
    def log_fields(self) -> LogFields:
        return {"cession": self.name, "phase": self.status.phase}


@dataclass(frozen=True, slots=True)
class AmendCession:
    """Write the spec of a Cession with more targets, if it still has the version planned on."""

    name: str
    version: str
    spec: CessionSpec

    @property
    def log_fields(self) -> LogFields:
        return {"cession": self.name, "round": self.spec.round, "why": self.spec.why}


@dataclass(frozen=True, slots=True)
class DeleteCession:
    """Delete a Cession whose retention time is over."""

    name: str
    uid: str

    @property
    def log_fields(self) -> LogFields:
        return {"cession": self.name}


@dataclass(frozen=True, slots=True)
class SetQueueingStrategy:
    """Set the queueing strategy of a ClusterQueue, if it still has the version planned on."""

    queue: str
    strategy: str
    version: str

    @property
    def log_fields(self) -> LogFields:
        return {"queue": self.queue, "strategy": self.strategy}


@dataclass(frozen=True, slots=True)
class RequestSize:
    """Ask a job's runtime to train with this number of pods. It may be repeated."""

    job: Key
    job_uid: str
    # IP addresses of its pods, in the order in which they are asked
    addresses: tuple[str, ...]
    size: int
    # empty if the request belongs to no Cession
    cession: str = ""
    deadline_s: float = 0.0
    # of a surplus: what it belongs to
    base: Base | None = None

    @property
    def log_fields(self) -> LogFields:
        return {"job": "/".join(self.job), "size": self.size}


def request_size(
    job: AdmittedWorkload, size: int, cession: str = "", deadline_s: float = 0.0
) -> RequestSize:
    return RequestSize(job.job, job.job_uid, job.addresses, size, cession, deadline_s, job.base)


@dataclass(frozen=True, slots=True)
class ResizeJob:
    """Set how many pods a Job has, if it still has the version planned on."""

    job: Key
    job_uid: str
    version: str
    size: int
    # note the time of the shrink, from which the cooldown of growth counts
    shrinks: bool
    why: str
    # True if a job that runs gets more pods
    grows: bool = False
    # True for a Job whose completions are not its number of pods
    keeps_completions: bool = False

    @property
    def spec(self) -> Json:
        """Both numbers in one patch. The Job controller removes the pods with the highest indexes
        only where completions shrink too (Kubernetes KEP-3715, elastic Indexed Jobs)."""
        counts: Json = {"parallelism": self.size}
        return counts if self.keeps_completions else counts | {"completions": self.size}

    @property
    def log_fields(self) -> LogFields:
        return {"job": "/".join(self.job), "size": self.size}


def resize(job: AdmittedWorkload, size: int, why: str, *, shrinks: bool) -> ResizeJob:
    """If the Job still is as it was in the snapshot."""
    return ResizeJob(
        job=job.job,
        job_uid=job.job_uid,
        version=job.job_version,
        size=size,
        shrinks=shrinks,
        why=why,
        grows=size > job.size,
        keeps_completions=job.keeps_completions,
    )


def shrink(job: AdmittedWorkload, size: int, why: str) -> "ResizeJob | DrainPod":
    """A job is resized. A pod or group of a server drains."""
    if job.drains and job.server:
        return DrainPod(job.job, job.job_uid, job.server, why)
    return resize(job, size, why, shrinks=True)


@dataclass(frozen=True, slots=True)
class SetWorkloadActive:
    """Set `spec.active` of a Workload, if it still has this uid. Kueue stops an inactive one."""

    workload: Key
    uid: str
    active: bool
    why: str
    # what it is stopped for; empty for an active one
    cession: str = ""

    @property
    def log_fields(self) -> LogFields:
        return {"workload": "/".join(self.workload), "active": self.active, "why": self.why}


@dataclass(frozen=True, slots=True)
class RequeueWorkload:
    """Let Kueue try a pending Workload again at once, if it is as it was in the snapshot."""

    workload: Key
    uid: str
    # the name of one of its pod sets
    pod_set: str
    # RFC 3339, of the annotation REQUEUED_AT
    since: str

    @property
    def log_fields(self) -> LogFields:
        return {"workload": "/".join(self.workload), "since": self.since}


@dataclass(frozen=True, slots=True)
class CreateGuard:
    """Create a guard that uses these amounts, outside of the Cohort."""

    cession: str
    amounts: Mapping[FlavorResource, int]
    # Kueue ends it after this time by itself
    limit_s: int

    @property
    def log_fields(self) -> LogFields:
        return {"cession": self.cession, "amounts": describe_amounts(self.amounts)}


@dataclass(frozen=True, slots=True)
class JoinGuard:
    """Put the queue of a guard into the Cohort, without quota, if it has the version planned on."""

    cession: str
    version: str
    keys: tuple[FlavorResource, ...]

    @property
    def log_fields(self) -> LogFields:
        return {"cession": self.cession}


@dataclass(frozen=True, slots=True)
class DeleteGuard:
    """Delete the objects of a guard."""

    cession: str

    @property
    def log_fields(self) -> LogFields:
        return {"cession": self.cession}


@dataclass(frozen=True, slots=True)
class SetPrivateQuota:
    """Change the quota of a ClusterQueue for a moment, or back, if it has the version planned on.
    The note and the quota are one write."""

    queue: str
    version: str
    resource_groups: tuple[Json, ...]
    # of the annotation PRIVATE_QUOTA; empty when it is changed back
    note: str

    @property
    def log_fields(self) -> LogFields:
        return {"queue": self.queue, "note": self.note}


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Record a Kubernetes event on a Job."""

    job: Key
    job_uid: str
    reason: SchedulerEvent
    note: str

    @property
    def log_fields(self) -> LogFields:
        return {"job": "/".join(self.job), "event": self.reason}


@dataclass(frozen=True, slots=True)
class RecordWorkloadEvent:
    """Record a Kubernetes event on a Workload."""

    workload: Key
    workload_uid: str
    reason: SchedulerEvent
    note: str

    @property
    def log_fields(self) -> LogFields:
        return {"workload": "/".join(self.workload), "event": self.reason, "note": self.note}


Action = (
    OpenCession
    | UpdateCession
    | AmendCession
    | DeleteCession
    | SetQueueingStrategy
    | RequestSize
    | ReportFinish
    | ResizeJob
    | RequestSave
    | AnswerSave
    | DrainPod
    | ScaleServer
    | SetWorkloadActive
    | RequeueWorkload
    | CreateGuard
    | JoinGuard
    | DeleteGuard
    | SetPrivateQuota
    | RecordEvent
    | RecordWorkloadEvent
)
