"""PURE. The Cession API: the record of one preemption, written by the scheduler only."""

from typing import ClassVar

from pydantic import BaseModel, Field

from cede.api.alternative import MAX_ALTERNATIVES, Alternative, How
from cede.api.cession_status import MAX_TARGETS, CessionStatus, TargetStatus
from cede.api.crd_schema import ATOMIC, Column, Crd
from cede.api.objects import CESSIONS, Meta
from cede.api.reasons import CessionPhase, CessionReason

OPEN = (CessionPhase.PENDING, CessionPhase.ASKED, CessionPhase.RELEASED)
"""The phases before Kueue admits the preemptor. No other plan may use the released capacity."""
ENDED = (CessionPhase.COMPLETED, CessionPhase.CANCELLED, CessionPhase.FAILED)
"""The phases in which the record does not change any more."""


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
    growingJob: str = Field(
        default="",
        max_length=64,
        description=(
            "The uid of the Job, if it runs and would grow with this Workload; empty otherwise."
        ),
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

    @property
    def name(self) -> str:
        """Of the Job, or of the Workload of another kind of object."""
        return self.job or self.workload


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
    toSize: int = Field(description="The number of pods afterwards; 0 if it is stopped or drained.")
    how: How = Field(
        description=(
            "Shrink: the job keeps training with fewer pods. Drain: this pod of a server ends, and "
            "the server has one replica less. Stop: Kueue stops the job and admits it again later; "
            "an elastic job is asked to save first."
        )
    )
    graceSeconds: int = Field(
        default=60,
        description=(
            "Seconds from the request until the job is resized or stopped even if it has not "
            "ceded. Only the time in which a scheduler leads is counted."
        ),
    )

    @property
    def name(self) -> str:
        """Of the Job, or of the Workload of another kind of object."""
        return self.job or self.workload


class CessionSpec(BaseModel):
    """The plan. It changes only by more targets, when the released capacity did not suffice."""

    preemptor: Preemptor = Field(description="The pending Workload that needs capacity.")
    reason: CessionReason = Field(
        description=(
            "Why the preemptor may take capacity. ReclaimOwnQuota: other teams borrow quota that "
            "its team owns. PriorityInTeam: jobs of its own team have lower priority. "
            "ReclaimAndPriority: both. ReclaimFairShare: its team borrows less than the teams that "
            "give, measured by their shares."
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
        max_length=MAX_TARGETS,
        json_schema_extra=ATOMIC,
        description="The jobs that release capacity for the preemptor.",
    )
    round: int = Field(
        default=1,
        description="How often targets were chosen: 1, and 1 more each time targets were added.",
    )
    why: str = Field(
        default="", max_length=2048, description="The plan and its reason in one sentence."
    )
    alternatives: list[Alternative] = Field(
        default_factory=list,
        max_length=MAX_ALTERNATIVES,
        json_schema_extra=ATOMIC,
        description=(
            "For the targets whose part of the plan costs most, three at most each time targets "
            "were chosen: what would have been done without them, and at what cost."
        ),
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

    def lost_steps(self, target: Target) -> int | None:
        """Steps that the job has to repeat; None: not known.

        A server repeats nothing for a pod that drained. A stop is recorded before it is done, so a
        job that was to be stopped and has no such record ended by itself.
        """
        status = self.target_status(target.uid)
        has_ended = status.releasedTime and not status.stopped and target.how != "Shrink"
        return 0 if has_ended else status.lost_steps

    @property
    def has_failed(self) -> bool:
        """Cancelled because the preemptor was not eligible counts too: it may soon be so again."""
        status = self.status
        return status.phase is CessionPhase.FAILED or (
            status.phase is CessionPhase.CANCELLED and bool(status.ineligibleTime)
        )

    @property
    def open(self) -> bool:
        """Whether the preemptor is not admitted yet. No other plan may use what is released."""
        return self.status.phase in OPEN

    @property
    def ended(self) -> bool:
        """Whether its phase is final."""
        return self.status.phase in ENDED

    def target_status(self, uid: str) -> TargetStatus:
        """The progress of the target with this uid."""
        return next(
            (target for target in self.status.targets if target.uid == uid), TargetStatus(uid=uid)
        )
