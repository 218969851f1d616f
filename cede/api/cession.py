"""Cession: one take-back, from the claim to the hand-over. Made by the scheduler only, and kept as
the record."""

from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from cede.api.crd_schema import ATOMIC, Column, Conditions, Crd, keyed
from cede.api.objects import CESSIONS, Meta

Phase = Literal["Planned", "Asked", "Released", "Admitted", "Running", "Cancelled", "Failed"]
OPEN: tuple[Phase, ...] = ("Planned", "Asked", "Released", "Admitted")


class Claimant(BaseModel):
    """Whose claim it is."""

    namespace: str = Field(max_length=63, description="The team's namespace.")
    workload: str = Field(max_length=253, description="The waiting Workload.")
    uid: str = Field(
        max_length=64, description="Its uid: another Workload of the same name is another claim."
    )
    job: str = Field(default="", max_length=253, description="The Job it stands for.")
    queue: str = Field(max_length=253, description="The ClusterQueue it waits in.")
    priorityClass: str = Field(default="", max_length=253, description="Its class of work.")
    created: str = Field(max_length=32, description="When the Workload was created.")


class Need(BaseModel):
    """What must be freed."""

    flavor: str = Field(max_length=253, description="The instance type.")
    resource: str = Field(max_length=253, description="The resource.")
    amount: str = Field(max_length=32, description="How much of it the claimant lacks.")


class Victim(BaseModel):
    """Who gives, and how."""

    namespace: str = Field(max_length=63, description="Where it runs.")
    job: str = Field(max_length=253, description="The Job.")
    uid: str = Field(max_length=64, description="The Job's uid.")
    workload: str = Field(
        default="", max_length=253, description="Its Workload when this was planned."
    )
    queue: str = Field(max_length=253, description="The ClusterQueue it is admitted to.")
    fromSize: int = Field(description="Pods before.")
    toSize: int = Field(description="Pods afterwards; 0 stops it whole.")
    how: Literal["Shrink", "Stop"] = Field(
        description="Shrink: it trains on. Stop: it saves, ends, and comes back later."
    )


class CessionSpec(BaseModel):
    """The plan."""

    claimant: Claimant = Field(description="Who asks.")
    need: list[Need] = Field(
        default_factory=list,
        max_length=64,
        json_schema_extra=ATOMIC,
        description="What must be freed.",
    )
    victims: list[Victim] = Field(
        default_factory=list, max_length=256, json_schema_extra=ATOMIC, description="Who gives it."
    )
    deadline: str = Field(max_length=32, description="From then on nobody is waited for.")
    reserved: bool = Field(
        default=True,
        description=(
            "Kueue keeps what is freed for the claimant. If not, all victims are resized "
            "in one burst."
        ),
    )
    why: str = Field(default="", max_length=2048, description="The plan in a sentence.")


class VictimStatus(BaseModel):
    """How far one victim is; times are RFC 3339."""

    uid: str = Field(max_length=64, description="The Job's uid.")
    job: str = Field(default="", max_length=253, description="The Job.")
    asked: str = Field(
        default="", max_length=32, description="When its runtime accepted the new size."
    )
    ceded: str = Field(
        default="",
        max_length=32,
        description="When its runtime said that nothing of value is left beyond it.",
    )
    step: int = Field(default=0, description="The training step it ceded after.")
    durableStep: int = Field(default=0, description="The newest step it had saved by then.")
    released: str = Field(
        default="", max_length=32, description="When the Job was resized or stopped."
    )
    forced: bool = Field(default=False, description="The deadline passed before it had ceded.")
    stopped: bool = Field(
        default=False, description="Its Workload is inactive because of this Cession."
    )


class CessionStatus(BaseModel):
    """What happened."""

    observedGeneration: int = Field(
        default=0, description="The generation of the spec this was said of."
    )
    phase: Phase = Field(default="Planned", description="Where it stands.")
    conditions: Conditions = Field(
        default_factory=list, description="Ready: the owner has what it asked for."
    )
    victims: list[VictimStatus] = Field(
        default_factory=list,
        max_length=256,
        json_schema_extra=keyed("uid"),
        description="By victim.",
    )
    admitted: str = Field(
        default="", max_length=32, description="When Kueue admitted the claimant."
    )
    ready: str = Field(default="", max_length=32, description="When its pods were ready.")
    ended: str = Field(default="", max_length=32, description="When there was nothing more to do.")
    secondsToOwner: str = Field(
        default="",
        max_length=16,
        description="From the claimant's creation to its pods being ready.",
    )
    gives: str = Field(default="", max_length=1024, description="Who gives, in words.")
    message: str = Field(default="", max_length=2048, description="What happened last, in words.")


class Cession(BaseModel):
    """One take-back: who asked, who gave, how long it took, and why it was they."""

    CRD: ClassVar[Crd] = Crd(
        kind=CESSIONS,
        short_names=("ces",),
        columns=(
            Column("Claimant", ".spec.claimant.job", description="Who asked."),
            Column("Queue", ".spec.claimant.queue", description="Its queue."),
            Column("Phase", ".status.phase", description="Where it stands."),
            Column("Gives", ".status.gives", description="Who gives."),
            Column(
                "Seconds",
                ".status.secondsToOwner",
                description="From the claim to its pods being ready.",
            ),
            Column("Why", ".spec.why", priority=1),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )

    metadata: Meta = Field(default_factory=Meta)
    spec: CessionSpec
    status: CessionStatus = Field(default_factory=CessionStatus)

    @property
    def open(self) -> bool:
        """Whether something is still to be done, so that its capacity is promised."""
        return self.status.phase in OPEN

    def of(self, uid: str) -> VictimStatus:
        """How far the victim of this uid is."""
        return next((v for v in self.status.victims if v.uid == uid), VictimStatus(uid=uid))
