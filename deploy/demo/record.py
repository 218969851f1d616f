"""PURE. What the demo measured, as it happened. All times are Unix seconds of this machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Line = Mapping[str, Any]
"""One line of a job's journal."""


@dataclass(frozen=True, slots=True)
class Step:
    """A committed step, as one rank wrote it into its journal."""

    step: int
    loss: float
    size: int
    # of the commit
    time: float
    # of the group that committed it
    generation: int = 0
    # from the last commit before a resize until this rank was ready for this step
    pause_ms: float | None = None

    @classmethod
    def read(cls, line: Line) -> "Step":
        pause = line.get("pause_ms")
        return cls(
            int(line["step"]),
            float(line["loss"]),
            int(line["size"]),
            float(line["time"]),
            int(line["generation"]),
            None if pause is None else float(pause),
        )


@dataclass(frozen=True, slots=True)
class Holding:
    """How many accelerators each team has from `time` on; research's plain job counts apart."""

    time: float
    by_team: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Record:
    # event → time, for the chart
    marks: dict[str, float] = field(default_factory=dict)
    holdings: list[Holding] = field(default_factory=list)
    # the journals of all ranks of the elastic job
    steps: list[Step] = field(default_factory=list)
    samples: Sequence[Line] = ()
    # the sizes of the data set and of a step
    run: Line = field(default_factory=dict)
    # the steps of the job under stock Kueue, as they were followed
    killed_steps: list[Step] = field(default_factory=list)
    # all steps of the plain job; their generation is the step after which it had begun
    plain_steps: list[Step] = field(default_factory=list)
    # vision's wait for the plain job, and the time until that trained again
    plain_owner_wait_s: float = 0.0
    plain_back_s: float = 0.0
    owner_wait_s: float = 0.0
    owner_wait_killed_s: float = 0.0
    grew_back_s: float = 0.0
    # when each pod that came with the growth began to run
    joined_at: list[float] = field(default_factory=list)
    killed_at: float = 0.0
    restarted_at: float = 0.0
    cession: str = ""
