"""PURE. The Cession API: the record of one preemption, written by the scheduler only."""

from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from cede.api.crd_schema import ATOMIC, Column, Conditions, Crd, keyed
from cede.api.objects import CESSIONS, Meta
from cede.api.reasons import CessionPhase, CessionReason

OPEN = (
    CessionPhase.PENDING,
    CessionPhase.ASKED,
    CessionPhase.RELEASED,
    CessionPhase.ADMITTED,
)
"""The phases in which work is left to do. No other plan may use the released capacity."""


class Preemptor(BaseModel):
    """The pending Workload that needs capacity."""

    namespace: str = Field(
        max_length=63, description="The namespace of the team that needs capacity."
    )
    workload: str = Field(max_length=253, description="The name of the pending Kueue Workload.")
    uid: str = Field(
        max_length=64,
        description=(
            "The uid of the Workload. A new Workload with the same name is another preemptor."
        ),
    )
    job: str = Field(
        default="",
        max_length=253,
        description="The Job that owns the Workload; empty if another kind of object owns it.",
    )
    queue: str = Field(
        max_length=253, description="The ClusterQueue in which the Workload is pending."
    )
    priorityClass: str = Field(
        default="",
        max_length=253,
        description="The WorkloadPriorityClass of the Workload; empty if it names none.",
    )
    creationTime: str = Field(
        max_length=32, description="When the Workload was created (RFC 3339)."
    )


class Need(BaseModel):
    """One resource of one instance type that must be released."""

    flavor: str = Field(
        max_length=253, description="The ResourceFlavor (instance type) that is short."
    )
    resource: str = Field(
        max_length=253, description="The resource that is short, such as nvidia.com/gpu."
    )
    amount: str = Field(
        max_length=32,
        description="How much of the resource the preemptor lacks, with its unit.",
    )


class Target(BaseModel):
    """A running job that releases capacity, and how."""

    namespace: str = Field(max_length=63, description="The namespace in which the job runs.")
    job: str = Field(
        max_length=253,
        description="The name of the Job; empty if another kind of object owns the Workload.",
    )
    uid: str = Field(
        max_length=64,
        description="The uid of the Job, or of the Workload if no Job owns it.",
    )
    workload: str = Field(
        default="",
        max_length=253,
        description="The name of the job's Workload at the time of planning.",
    )
    queue: str = Field(max_length=253, description="The ClusterQueue that admitted the job.")
    fromSize: int = Field(description="The number of pods at the time of planning.")
    toSize: int = Field(description="The number of pods afterwards; 0 if the job is stopped.")
    how: Literal["Shrink", "Stop"] = Field(
        description=(
            "Shrink: the job keeps training with fewer pods. Stop: Kueue stops the job and admits "
            "it again later; an elastic job is asked to save first."
        )
    )


class CessionSpec(BaseModel):
    """The plan. It never changes."""

    preemptor: Preemptor = Field(description="The pending Workload that needs capacity.")
    reason: CessionReason = Field(
        description=(
            "Why the preemptor may take capacity. ReclaimOwnQuota: other teams borrow quota that "
            "its team owns. PriorityInTeam: jobs of its own team have lower priority. "
            "ReclaimAndPriority: both."
        )
    )
    need: list[Need] = Field(
        default_factory=list,
        max_length=64,
        json_schema_extra=ATOMIC,
        description="The resources that the preemptor lacks.",
    )
    targets: list[Target] = Field(
        default_factory=list,
        max_length=256,
        json_schema_extra=ATOMIC,
        description="The jobs that release capacity for the preemptor.",
    )
    deadline: str = Field(
        max_length=32,
        description=(
            "The end of the grace period (RFC 3339). After it, targets are resized or stopped "
            "even if they have not ceded."
        ),
    )
    reserved: bool = Field(
        default=True,
        description=(
            "True if Kueue keeps the released capacity for the preemptor, so that each target is "
            "resized as soon as it has ceded. If false, all targets are resized together at the "
            "end."
        ),
    )
    why: str = Field(
        default="", max_length=2048, description="The plan and its reason in one sentence."
    )


class TargetStatus(BaseModel):
    """The progress of one target. All times are RFC 3339, empty until it happens."""

    uid: str = Field(max_length=64, description="The uid of the target in spec.targets.")
    job: str = Field(default="", max_length=253, description="The name of the Job.")
    askedTime: str = Field(
        default="", max_length=32, description="When the job's runtime accepted the new size."
    )
    cededTime: str = Field(
        default="",
        max_length=32,
        description=(
            "When the job's runtime reported that the pods above the new size hold no training "
            "state any more."
        ),
    )
    step: int = Field(
        default=0, description="The last training step before the job ceded; 0 until then."
    )
    durableStep: int = Field(
        default=0, description="The newest step that was saved when the job ceded; 0 until then."
    )
    releasedTime: str = Field(
        default="", max_length=32, description="When the Job was resized or stopped."
    )
    forcedTime: str = Field(
        default="",
        max_length=32,
        description=(
            "When the Job was resized or stopped because the deadline passed before it had "
            "ceded; empty if it ceded in time."
        ),
    )
    stopped: bool = Field(
        default=False,
        description=(
            "True if this Cession stops the job: it sets spec.active of the job's Workload to "
            "false, and to true again at its end."
        ),
    )


class CessionStatus(BaseModel):
    """What happened so far. All times are RFC 3339, empty until it happens."""

    observedGeneration: int = Field(
        default=0, description="The generation of the spec that this status describes."
    )
    phase: CessionPhase = Field(
        default=CessionPhase.PENDING,
        description=(
            "Pending: no target has been asked yet. Asked: a target is finishing its step. "
            "Released: all targets were resized or stopped. Admitted: Kueue admitted the "
            "preemptor. Completed: the preemptor's pods were ready. Cancelled: the preemptor was "
            "deleted or deactivated. Failed: the preemptor was not admitted, and the scheduler "
            "plans again."
        ),
    )
    conditions: Conditions = Field(
        default_factory=list,
        description=(
            "Ready is True when the preemptor runs, False when the Cession was cancelled or "
            "failed, Unknown before. Its reason is the phase."
        ),
    )
    targets: list[TargetStatus] = Field(
        default_factory=list,
        max_length=256,
        json_schema_extra=keyed("uid"),
        description="The progress of every target.",
    )
    reservedTime: str = Field(
        default="",
        max_length=32,
        description=(
            "Since when Kueue keeps released capacity for the preemptor. Targets release theirs "
            "a moment later."
        ),
    )
    admittedTime: str = Field(
        default="", max_length=32, description="When Kueue admitted the preemptor."
    )
    readyTime: str = Field(
        default="", max_length=32, description="When the preemptor's pods were ready."
    )
    completionTime: str = Field(
        default="",
        max_length=32,
        description="When the Cession ended, as Completed, Cancelled or Failed.",
    )
    secondsToReady: str = Field(
        default="",
        max_length=16,
        description=(
            "Seconds from the creation of the preemptor to its pods being ready; empty until then."
        ),
    )
    targetSummary: str = Field(
        default="",
        max_length=1024,
        description="The targets and their sizes in one line, such as gpt 8→4.",
    )
    message: str = Field(
        default="", max_length=2048, description="What happened last, in one sentence."
    )


class Cession(BaseModel):
    """The record of one preemption: the preemptor, its targets, the reason, and the times."""

    CRD: ClassVar[Crd] = Crd(
        kind=CESSIONS,
        short_names=("ces",),
        columns=(
            Column("Preemptor", ".spec.preemptor.job", description="The Job that needs capacity."),
            Column(
                "Queue",
                ".spec.preemptor.queue",
                description="The ClusterQueue in which the preemptor is pending.",
            ),
            Column("Reason", ".spec.reason", description="Why the preemptor may take capacity."),
            Column("Phase", ".status.phase", description="The progress of the Cession."),
            Column(
                "Targets",
                ".status.targetSummary",
                description="The jobs that release capacity, and their sizes.",
            ),
            Column(
                "Seconds",
                ".status.secondsToReady",
                description="Seconds until the preemptor's pods were ready.",
            ),
            Column(
                "Why",
                ".spec.why",
                description="The plan and its reason in one sentence.",
                priority=1,
            ),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )

    metadata: Meta = Field(default_factory=Meta)
    spec: CessionSpec
    status: CessionStatus = Field(default_factory=CessionStatus)

    @property
    def open(self) -> bool:
        """Whether work is left to do. If so, no other plan may use the released capacity."""
        return self.status.phase in OPEN

    def target_status(self, uid: str) -> TargetStatus:
        """The progress of the target with this uid."""
        return next(
            (target for target in self.status.targets if target.uid == uid), TargetStatus(uid=uid)
        )
