"""PURE. The figures of the demo, from the journals of its jobs and what was observed."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from deploy.demo.record import Line, Step


def merged(steps: Iterable[Step]) -> list[Step]:
    """One entry for each step, in order.

    It is the first that a rank wrote, of the last generation that committed the step.
    """
    best: dict[int, Step] = {}
    for entry in sorted(steps, key=lambda step: (-step.generation, step.time)):
        best.setdefault(entry.step, entry)
    return [best[step] for step in sorted(best)]


# --- samples --------------------------------------------------------------------------------------
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
    """Counts losses and repetitions in the journals of all ranks.

    The last step is left out, because it may not be complete yet. A step is lost when no rank
    wrote it, and counts as lost once more when two generations committed it. Lines of samples
    count if their generation committed the step. A sample is lost when no such line has it. It is
    seen twice when its micro-batch counts twice, or when it comes twice in one epoch, whose order
    is a permutation of `dataset` samples.
    """
    last = max((step.step for step in steps), default=1) - 1
    generations: dict[int, set[int]] = {}
    for step in steps:
        generations.setdefault(step.step, set()).add(step.generation)
    uses = Counter[tuple[int, int]]()
    # position in the sequence of all samples → sample
    order: dict[int, int] = {}
    for line in samples:
        number = int(line["step"])
        if number > last or int(line["generation"]) not in generations.get(number, ()):
            continue
        micro_batch = int(line["micro_batch"])
        uses[number, micro_batch] += 1
        first = ((number - 1) * micro_batches + micro_batch) * per_micro_batch
        for offset, sample in enumerate(line["samples"]):
            order[first + offset] = int(sample)
    in_epoch = Counter((position // dataset, sample) for position, sample in order.items())
    missing = sum(1 for number in range(1, last + 1) if number not in generations)
    repeated = sum(
        len(committed) - 1 for number, committed in generations.items() if number <= last
    )
    return Account(
        steps=last,
        steps_lost=missing + repeated,
        samples=len(order),
        samples_lost=last * micro_batches * per_micro_batch - len(order),
        samples_seen_twice=sum(count - 1 for count in uses.values()) * per_micro_batch
        + sum(count - 1 for count in in_epoch.values()),
    )


# --- pauses ---------------------------------------------------------------------------------------
def step_seconds(steps: Sequence[Step], size: int) -> float:
    """The median duration of a step at `size`; 0.0 when there is none."""
    of_size = sorted((step for step in steps if step.size == size), key=lambda step: step.step)
    durations = [
        after.time - before.time
        for before, after in pairwise(of_size)
        if after.step == before.step + 1
    ]
    return median(durations) if durations else 0.0


@dataclass(frozen=True, slots=True)
class Pause:
    """What the first shrink cost the ranks that stayed; nan where it was not measured."""

    # of the slowest rank, from its last commit until it was ready for the next step
    ms: float
    # the same in steps of the new size
    steps: float
    # Between the two commits, without the duration of a step. It also contains the load that
    # starting the owner's pods puts on this machine.
    gap_ms: float


def pause_of_shrink(steps: Sequence[Step]) -> Pause:
    """The pause of the first shrink in the journals of all ranks."""
    ordered = merged(steps)
    for before, after in pairwise(ordered):
        if after.size < before.size:
            generation = [step for step in ordered if step.generation == after.generation]
            step_s = step_seconds(generation, after.size)
            pauses = [
                step.pause_ms
                for step in steps
                if (step.step, step.generation) == (after.step, after.generation)
                and step.pause_ms is not None
            ]
            slowest_ms = max(pauses, default=math.nan)
            in_steps = slowest_ms / 1000 / step_s if step_s else math.nan
            gap_s = max(0.0, after.time - before.time - step_s)
            return Pause(slowest_ms, in_steps, gap_s * 1000)
    return Pause(math.nan, math.nan, math.nan)


# --- a gentle stop --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class GentleStop:
    """What a job lost that was stopped, and began again after a step that it had saved."""

    steps: int
    steps_lost: int
    # the last one; nan if it never began again
    saved_step: float


def gentle_stop(steps: Sequence[Step]) -> GentleStop:
    """From the journal of one rank, in which a step's generation is the step after which the job
    had begun. A step is lost if it is missing or was done twice."""
    numbers = {step.step for step in steps}
    last = max(numbers, default=0)
    missing = last - len(numbers)
    repeated = len(steps) - len(numbers)
    began_after = max((step.generation for step in steps), default=0)
    return GentleStop(last, missing + repeated, began_after or math.nan)


# --- lost time ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Kill:
    """What a killed job lost: steps that it repeated, and accelerator time."""

    steps_lost: int
    accelerator_seconds_lost: float


def lost_by_kill(
    steps: Sequence[Step], killed_at: float, restarted_at: float, accelerators: int
) -> Kill:
    """Counts the repeated steps, the unfinished step, and the start of the pods to the first step.

    The time is that of all `accelerators`. `restarted_at` is when the pods ran again. Raises
    ValueError when the journal has no step before or after it.
    """
    before = [step for step in steps if step.time < restarted_at]
    after = [step for step in steps if step.time >= restarted_at]
    if not before or not after:
        raise ValueError(
            f"the killed job wrote {len(before)} steps before and {len(after)} after its restart: "
            f"both are needed, run the demo again"
        )
    first = min(after, key=lambda step: step.time)
    repeated = [step for step in before if step.step >= first.step]
    kept = [step.time for step in before if step.step < first.step]
    work_s = killed_at - max(kept, default=min(step.time for step in before))
    start_s = first.time - restarted_at
    return Kill(len(repeated), round((max(work_s, 0.0) + start_s) * accelerators, 1))


def lost_by_ceding(steps: Sequence[Step], joined_at: Sequence[float]) -> float:
    """The accelerator seconds that a job lost by shrinking and growing again.

    They are counted as for a killed job: repeated steps; at each resize, the time between the two
    commits beyond a step, for each rank that stayed; and for each pod that joined, the time from
    its start (`joined_at`) to its first step.
    """
    ordered = merged(steps)
    generation = {step.step: step.generation for step in ordered}
    repeated = {
        (step.step, step.generation): step.size
        for step in steps
        if step.generation != generation[step.step]
    }
    lost = sum(size * step_seconds(ordered, size) for size in repeated.values())
    shrunk = False
    for before, after in pairwise(ordered):
        if before.size != after.size and (shrunk or after.size < before.size):
            gap_s = max(0.0, after.time - before.time - step_seconds(ordered, after.size))
            lost += gap_s * min(before.size, after.size)
            shrunk = True
    first_s = _first_step_after_growth(ordered) if shrunk else None
    if first_s is not None:
        lost += sum(max(0.0, first_s - joined_s) for joined_s in joined_at)
    return round(lost, 1)


def _first_step_after_growth(ordered: Sequence[Step]) -> float | None:
    """When the first step of the last size was committed; None if the size never grew."""
    smaller = [step.time for step in ordered if step.size < ordered[-1].size]
    if not smaller:
        return None
    return min(step.time for step in ordered if step.time > smaller[-1])
