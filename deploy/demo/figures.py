"""What the story measured: from the job's own logs and from what was seen in the cluster to
figures. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a job's journal: a committed step, as one rank saw it."""

    step: int
    loss: float
    size: int
    # Unix seconds of the commit
    time: float
    # the membership that committed it
    generation: int = 0
    # from the commit before a resize until this rank was ready for this step; None where none was
    pause_ms: float | None = None

    @classmethod
    def read(cls, line: Line) -> "Step":
        pause = None if line.get("pause_ms") is None else float(line["pause_ms"])
        return cls(
            int(line["step"]),
            float(line["loss"]),
            int(line["size"]),
            float(line["time"]),
            int(line["generation"]),
            pause,
        )


def merged(steps: Iterable[Step]) -> list[Step]:
    """One line a step, in order: the first that any rank wrote of the generation that committed it
    last."""
    best: dict[int, Step] = {}
    for s in steps:
        if s.step not in best or (-s.generation, s.time) < (
            -best[s.step].generation,
            best[s.step].time,
        ):
            best[s.step] = s
    return [best[step] for step in sorted(best)]


@dataclass(frozen=True, slots=True)
class Account:
    """Whether every sample of every step was used exactly once."""

    steps: int
    steps_lost: int
    samples: int
    samples_lost: int
    samples_seen_twice: int


def account(
    steps: Sequence[Step],
    samples: Iterable[Line],
    micro_batches: int,
    per_micro_batch: int,
    dataset: int,
) -> Account:
    """Count what was lost or seen twice, from the journals of all ranks, up to the last but one
    step (the last may still be being written).

    A step is lost when no rank logged it, and done twice when two generations committed it. A line
    of samples counts when it is of the
    generation that committed its step. A sample is lost when no such line has it, seen twice when
    its micro-batch counts twice,
    or when it comes twice in one epoch: the order of an epoch is a permutation of `dataset`
    samples.
    """
    last = max((s.step for s in steps), default=1) - 1
    committed: dict[int, set[int]] = {}
    for s in steps:
        committed.setdefault(s.step, set()).add(s.generation)
    used = Counter[tuple[int, int]]()
    order: dict[int, int] = {}
    for line in samples:
        if (step := int(line["step"])) <= last and int(line["generation"]) in committed.get(
            step, ()
        ):
            used[step, int(line["micro_batch"])] += 1
            for j, sample in enumerate(line["samples"]):
                order[
                    ((step - 1) * micro_batches + int(line["micro_batch"])) * per_micro_batch + j
                ] = int(sample)
    again = sum(used[key] - 1 for key in used if used[key] > 1) * per_micro_batch
    in_epoch = Counter((position // dataset, sample) for position, sample in order.items())
    missing = sum(1 for step in range(1, last + 1) if step not in committed)
    return Account(
        steps=last,
        steps_lost=missing
        + sum(len(generations) - 1 for step, generations in committed.items() if step <= last),
        samples=len(order),
        samples_lost=last * micro_batches * per_micro_batch - len(order),
        samples_seen_twice=again + sum(n - 1 for n in in_epoch.values()),
    )


def step_seconds(steps: Sequence[Step], size: int) -> float:
    """Median seconds of a step at `size`; 0.0 when there are none."""
    at = sorted((s for s in steps if s.size == size), key=lambda s: s.step)
    gaps = [b.time - a.time for a, b in pairwise(at) if b.step == a.step + 1]
    return median(gaps) if gaps else 0.0


@dataclass(frozen=True, slots=True)
class Pause:
    """What the first shrink cost those who stayed."""

    # the slowest rank's, from its last commit before until it was ready for the next step
    ms: float
    # the same in steps of the new size
    steps: float
    # between the two commits, less a step: it also holds what starting the owner's pods takes from
    # this machine
    gap_ms: float


def pause_of_shrink(steps: Sequence[Step]) -> Pause:
    """All nan when there was no shrink, or no survivor said how long it took."""
    ordered = merged(steps)
    for before, after in pairwise(ordered):
        if after.size < before.size:
            length = step_seconds(
                [s for s in ordered if s.generation == after.generation], after.size
            )
            said = [
                s.pause_ms
                for s in steps
                if (s.step, s.generation) == (after.step, after.generation)
                and s.pause_ms is not None
            ]
            slowest = max(said, default=math.nan)
            in_steps = slowest / 1000 / length if length else math.nan
            return Pause(slowest, in_steps, max(0.0, after.time - before.time - length) * 1000)
    return Pause(math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Kill:
    """What a killed job lost: the steps it had to do again, and its accelerators' time in them and
    in starting again."""

    steps_lost: int
    accelerator_seconds_lost: float


def lost_by_kill(
    steps: Sequence[Step], killed_at: float, restarted_at: float, accelerators: int
) -> Kill:
    """`restarted_at`: when its pods ran again. Lost: steps committed before the kill and done again
    after it, the rest of the step in
    flight, and the time from the pods' start to the first step, all times `accelerators`."""
    before = [s for s in steps if s.time < restarted_at]
    after = [s for s in steps if s.time >= restarted_at]
    if not before or not after:
        raise ValueError(
            f"the killed job logged {len(before)} steps before and {len(after)} after its "
            f"restart: both are needed"
        )
    first = min(after, key=lambda s: s.time)
    redone = [s for s in before if s.step >= first.step]
    kept = [s.time for s in before if s.step < first.step]
    work = killed_at - max(kept, default=min(s.time for s in before))
    start = first.time - restarted_at
    return Kill(len(redone), round((max(work, 0.0) + start) * accelerators, 1))


def lost_by_ceding(steps: Sequence[Step], joined_at: Sequence[float]) -> float:
    """Accelerators' seconds in which a job that shrank and grew again did nothing new, by the same
    rule as for a killed one.

    Steps done again; between the two commits of each resize more than a step, times those who
    stayed; and each joiner's time
    from its pod's start (`joined_at`, Unix seconds) to the first step it took part in.
    """
    ordered = merged(steps)
    kept = {s.step: s.generation for s in ordered}
    again = {(s.step, s.generation): s.size for s in steps if s.generation != kept[s.step]}
    lost = sum(size * step_seconds(ordered, size) for size in again.values())
    shrunk = False
    for before, after in pairwise(ordered):
        if before.size != after.size and (shrunk or after.size < before.size):
            lost += max(0.0, after.time - before.time - step_seconds(ordered, after.size)) * min(
                before.size, after.size
            )
            shrunk = True
    grown = (
        next((s.time for s in reversed(ordered) if s.size < ordered[-1].size), None)
        if shrunk
        else None
    )
    if grown is not None:
        first = min(s.time for s in ordered if s.time > grown)
        lost += sum(max(0.0, first - joined) for joined in joined_at)
    return round(lost, 1)


@dataclass(frozen=True, slots=True)
class Holding:
    """Who held how many accelerators from `time` on."""

    time: float
    by_team: Mapping[str, int] = field(default_factory=dict)
