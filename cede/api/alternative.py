"""PURE. What would have been done without one target of a Cession: a part of its plan."""

from typing import Literal

from pydantic import BaseModel, Field

from cede.api.crd_schema import ATOMIC
from cede.api.preference_reasons import PreferenceReason

MAX_ALTERNATIVES = 8
"""Of one Cession."""
MAX_JOBS = 3
"""That an alternative names. The others are counted."""
How = Literal["Shrink", "Drain", "Stop"]


class AlternativeJob(BaseModel):
    """A running job that would have given, and how."""

    namespace: str = Field(max_length=63, description="The namespace in which the job runs.")
    name: str = Field(
        max_length=253,
        description="The name of the Job, or of the Workload if another kind of object owns it.",
    )
    fromSize: int = Field(description="The number of pods at the time of planning.")
    toSize: int = Field(description="The number of pods that it would have kept.")
    how: How = Field(description="As in spec.targets.")


class Alternative(BaseModel):
    """What the same rules would have chosen if one of the targets could not give."""

    spared: str = Field(
        max_length=64, description="The uid, in spec.targets, of the target that could not give."
    )
    jobs: list[AlternativeJob] = Field(
        default_factory=list,
        max_length=MAX_JOBS,
        json_schema_extra=ATOMIC,
        description=(
            "The jobs that would have given in its place, or more than they do. Empty if they "
            "could not have released enough."
        ),
    )
    moreJobs: int = Field(default=0, description="How many more jobs would have given.")
    costSeconds: str = Field(
        default="",
        max_length=16,
        pattern="^[0-9]*$",
        description=(
            "What the stops of these jobs would have cost: accelerators of the kinds that the "
            "preemptor lacks × seconds. For each stop 60 s to start again count, and for a job "
            "that cannot be asked to save also the time since its start, 600 s at most. Empty if "
            "the preemptor lacks no accelerators."
        ),
    )
    plannedSeconds: str = Field(
        default="",
        max_length=16,
        pattern="^[0-9]*$",
        description="What the stops that the plan has in their place cost, counted likewise.",
    )
    reason: PreferenceReason = Field(
        description="Why the target gives, and not the first of these jobs."
    )
