"""PURE. The status of a Cession: what happened so far, for each target and as a whole."""

from typing import Any

from pydantic import BaseModel, Field, model_serializer

from cede.api.crd_schema import ATOMIC, Conditions
from cede.api.objects import Json
from cede.api.reasons import CessionPhase
from cede.api.resources import FlavorResource

MAX_TARGETS = 1000
"""Targets of one Cession. With names of 253 characters, so many still fit into one object."""
MAX_KINDS = 8
"""Kinds of accelerators of one job that are recorded."""


class UnsavedWork(BaseModel):
    """Work of a job on one kind of accelerator that it had not saved."""

    flavor: str = Field(max_length=253, description="The ResourceFlavor (instance type).")
    resource: str = Field(
        max_length=253, description="The accelerator or partition, such as nvidia.com/gpu."
    )
    seconds: str = Field(
        default="",
        max_length=16,
        pattern=r"^([0-9]+\.[0-9])?$",
        description=(
            "Seconds of one accelerator since the newest save that the scheduler saw; empty if the "
            "job reported none."
        ),
    )


class TargetStatus(BaseModel):
    """The progress of one target. All times are RFC 3339, empty until it happens."""

    uid: str = Field(max_length=64, description="The uid of the target in spec.targets.")
    requestedTime: str = Field(
        default="",
        max_length=32,
        description=(
            "When the scheduler first asked for the job's capacity. Empty again if the preemptor "
            "does not need it any more."
        ),
    )
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
        default=0,
        description=(
            "The last training step before the job ceded, or before the scheduler resized or "
            "stopped it without that; 0 until then, or if the job did not report it."
        ),
    )
    durableStep: int = Field(
        default=0, description="The newest step that was saved then; 0 until then."
    )
    unsaved: list[UnsavedWork] = Field(
        default_factory=list,
        max_length=MAX_KINDS,
        json_schema_extra=ATOMIC,
        description=(
            "The work that was not saved then, for each kind of accelerator that the job had. A "
            "job that is stopped loses it. Empty if the job had ceded and saved all."
        ),
    )
    withoutAccelerators: bool = Field(
        default=False,
        description="True if the job has no accelerators, so that it loses no time of any.",
    )
    completed: bool = Field(
        default=False,
        description=(
            "True if the Job was Complete when it released its capacity, and this Cession had "
            "neither resized nor stopped it: it lost nothing."
        ),
    )
    resizeRequestedTime: str = Field(
        default="",
        max_length=32,
        description=(
            "When the scheduler first tried to resize the Job, or to end a scale-up of it before "
            "it stops the job; see releasedTime."
        ),
    )
    stopRequestedTime: str = Field(
        default="",
        max_length=32,
        description="When the scheduler first tried to stop the job; see releasedTime.",
    )
    releasedTime: str = Field(
        default="",
        max_length=32,
        description="When the Job had its new size, or its Workload was inactive.",
    )
    goneTime: str = Field(
        default="", max_length=32, description="When the pods that were released had ended."
    )
    endingPods: int = Field(
        default=0,
        description=(
            "How many pods of a job that was stopped have not ended yet, and may still save. The "
            "pods of the preemptor wait for their nodes."
        ),
    )
    forcedTime: str = Field(
        default="",
        max_length=32,
        description=(
            "When the scheduler waited no longer for the job to cede, because its grace period "
            "had passed; empty if it ceded in time, or could not be asked."
        ),
    )
    stopped: bool = Field(
        default=False,
        description=(
            "True if this Cession stops the job: it sets spec.active of the job's Workload to "
            "false, and to true again at its end, unless staysStopped."
        ),
    )

    staysStopped: bool = Field(
        default=False,
        description=(
            "True if the stopped job does not run again by itself, because it has the annotation "
            "cede.dev/after-preemption: stop."
        ),
    )

    @property
    def lost_steps(self) -> int | None:
        """Steps that the job has to repeat; None: not known.

        A job that ceded and trains on has lost nothing, and one that completed has nothing to
        repeat. One that was stopped continues from what it had saved, as far as it reported that.
        """
        if self.completed or (self.cededTime and not self.stopped):
            return 0
        if not self.cededTime and not (self.stopped and self.step):
            return None
        return max(0, self.step - self.durableStep)

    @property
    def lost_seconds(self) -> dict[FlavorResource, float | None] | None:
        """Seconds of one accelerator that the job has to repeat, for each kind that it had; None:
        not known. Empty if nothing was lost; None in place of all if not even the kinds are
        known."""
        if self.lost_steps == 0 or self.withoutAccelerators:
            return {}
        if not self.unsaved:
            return None
        is_known = self.lost_steps is not None
        return {
            (work.flavor, work.resource): float(work.seconds) if is_known and work.seconds else None
            for work in self.unsaved
        }

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: Any) -> Json:
        """Only what happened: a Cession may have a thousand targets."""
        full: Json = serialize(self)
        return {name: value for name, value in full.items() if value or name == "uid"}


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
            "deleted or may not run, or the mode is Observe. Failed: the preemptor was not "
            "admitted; the scheduler plans again after a pause."
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
        max_length=MAX_TARGETS,
        json_schema_extra=ATOMIC,
        description="The progress of every target.",
    )
    ineligibleTime: str = Field(
        default="",
        max_length=32,
        description="Since when Kueue would not try the preemptor; empty if it would.",
    )
    shortTime: str = Field(
        default="",
        max_length=32,
        description=(
            "Since when the preemptor would not fit even if all targets released their capacity; "
            "none is resized or stopped meanwhile. Empty if it would."
        ),
    )
    reservedTime: str = Field(
        default="",
        max_length=32,
        description=(
            "Since when the preemptor's queue is StrictFIFO, so that Kueue keeps released capacity "
            "for it within its team's own quota, or since when a guard keeps what it claims beyond "
            "that. Targets release theirs a moment later."
        ),
    )
    releasedTime: str = Field(
        default="", max_length=32, description="When all targets that are needed were released."
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

    @property
    def released(self) -> bool:
        """Whether a target has released its capacity."""
        return any(target.releasedTime for target in self.targets)
