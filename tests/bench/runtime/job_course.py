"""What happened to a job of many processes, and the rows of it that its journal gives."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from tests.bench.runtime.commits import (
    Commit,
    Resumed,
    lost_samples,
    lost_steps,
    read_journal,
    resumed,
)
from tests.bench.runtime.process_costs import Cost
from tests.bench.runtime.table import Row

NAME = "many"


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to the job, when in Unix seconds, and with how many pods it trains then."""

    name: str
    began: float
    size: int
    # Nobody asked for it: the figure is the time until all train again, the step included.
    is_fault: bool = False


@dataclass
class Course:
    """What has happened to a job so far."""

    pods: int
    # Unix seconds.
    began: float
    changes: list[Change] = field(default_factory=list)
    agents: list[Cost] = field(default_factory=list)
    ranks: list[Cost] = field(default_factory=list)
    # Cores, while all train: of the coordinator's agent, of all agents, and of all ranks.
    cpu: Sequence[float] = ()
    # From and until when that was measured.
    steady: tuple[float, float] = (0.0, 0.0)
    # The change that did not end, and why.
    failure: str = ""


def resumed_after(commits: Sequence[Commit], change: Change) -> Resumed | None:
    """How the job trained on after a change, in the first generation of its size since then."""
    later = {c.era for c in commits if c.world == change.size and c.time > change.began}
    # A generation of that size from before the change goes on for a step.
    later -= {c.era for c in commits if c.time <= change.began}
    if not later:
        return None
    era = min(later)
    known = [commit for commit in commits if commit.era <= era]
    return resumed(known, lambda commit: commit.era == era, change.size, more=2)


def first_common_step(commits: Sequence[Commit], pods: int) -> float | None:
    """Unix seconds at which all ranks of the first generation of so many had committed a step."""
    first: dict[int, dict[str, float]] = {}
    for commit in commits:
        if commit.world == pods:
            ranks = first.setdefault(commit.era, {})
            ranks[commit.rank] = min(commit.time, ranks.get(commit.rank, commit.time))
    complete = [era for era, ranks in first.items() if len(ranks) == pods]
    return max(first[min(complete)].values()) if complete else None


def step_s(commits: Sequence[Commit], began: float, ended: float) -> list[float]:
    """Of every step of one rank within this time."""
    watched = [commit for commit in commits if began <= commit.time <= ended]
    rank = min((commit.rank for commit in watched), default="")
    times = sorted(commit.time for commit in watched if commit.rank == rank)
    return [after - before for before, after in pairwise(times)]


def rows(course: Course, log: Path) -> list[Row]:
    """Empty figures are of what was not reached."""
    commits = read_journal(log)

    common = first_common_step(commits, course.pods)
    lost = [float(lost_steps(commits) + lost_samples(log))] if commits else []
    started = [common - course.began] if common else []
    return [
        row(course, "start until the first step of all", "s", started),
        row(course, "a step, while nothing changes", "s", step_s(commits, *course.steady)),
        *(change_row(course, change, resumed_after(commits, change)) for change in course.changes),
        *cost_rows(course),
        replace(
            row(course, "steps not committed once, micro-batches not used once", "", lost),
            goal="0",
            at_most=0.0,
            always=True,
            note=course.failure,
        ),
    ]


def row(course: Course, quantity: str, unit: str, values: Sequence[float], note: str = "") -> Row:
    return Row(NAME, f"{course.pods} pods: {quantity}", "stated", unit, values, note=note)


def change_row(course: Course, change: Change, back: Resumed | None) -> Row:
    quantity = "until all others have made a step" if change.is_fault else "pause"
    quantity = f"{change.name}: {quantity}"
    if not back:
        return row(course, quantity, "s", [])
    until_all_s = back.first - change.began
    note = f"steps then take {back.step_s:.3f} s"
    if change.is_fault:
        return row(course, quantity, "s", [until_all_s], note)
    note = f"all have made a step {until_all_s:.2f} s after the request; {note}"
    return row(course, quantity, "s", [back.pause_s], note)


def cost_rows(course: Course) -> list[Row]:
    """The spread is that of the processes."""
    figures = list[Row]()
    for name, costs in (("an agent", course.agents), ("a rank", course.ranks)):
        memory = [cost.memory_bytes / 1e6 for cost in costs]
        figures += [
            row(course, f"memory of {name}", "MB", memory),
            row(course, f"open files of {name}", "", [cost.open_files for cost in costs]),
            row(course, f"threads of {name}", "", [cost.threads for cost in costs]),
        ]
    everything = [*course.agents, *course.ranks]
    total = [sum(cost.memory_bytes for cost in everything) / 1e9] if everything else []
    names = ("the coordinator's agent", "all agents", "all ranks")
    used = {name: [cores] for name, cores in zip(names, course.cpu, strict=False)}
    return [
        row(course, "memory of all", "GB", total),
        *figures,
        *(row(course, f"cores used by {name}", "", used.get(name, [])) for name in names),
    ]
