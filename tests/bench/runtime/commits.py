"""Evaluates the logs of a job around a change of membership.

How long did no rank commit a step, and what was lost?
"""

import json
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Commit:
    """One step committed by one rank."""

    # Unix seconds.
    time: float
    # Its name: of its journal, or the number that a peer gives it.
    rank: str
    step: int
    world: int
    # A number that grows with every change of membership: generation, restart, process id.
    era: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """How a job resumed after a change of membership."""

    # Unix seconds of the last commit of any rank in the previous era.
    last: float
    # Unix seconds at which all ranks of the new era had committed a step.
    first: float
    # Median duration of a step in the new era.
    step_s: float
    # Steps that were committed in both eras.
    redone: int

    @property
    def pause_s(self) -> float:
        """Seconds without a commit, minus one step, which takes that long anyway."""
        return max(0.0, self.first - self.last - self.step_s)


def resumed(
    commits: Iterable[Commit], new: Callable[[Commit], bool], world: int, more: int = 5
) -> Resumed | None:
    """How the job resumed; None until each of `world` ranks has committed `more` more steps.

    `new` is true for the commits of the new era.
    """
    first: dict[str, Commit] = {}
    durations_by_rank: dict[str, list[float]] = {}
    before: list[Commit] = []
    previous: dict[str, float] = {}
    for commit in sorted(commits, key=lambda c: c.time):
        if not (new(commit) and commit.world == world):
            before.append(commit)
            continue
        first.setdefault(commit.rank, commit)
        if commit.rank in previous:
            durations_by_rank.setdefault(commit.rank, []).append(
                commit.time - previous[commit.rank]
            )
        previous[commit.rank] = commit.time
    if len(first) < world or any(len(durations_by_rank.get(rank, [])) < more for rank in first):
        return None
    began = max(c.time for c in first.values())
    earliest = min(c.time for c in first.values())
    earlier = [c for c in before if c.time < earliest]
    durations = list(chain.from_iterable(durations_by_rank.values()))
    return Resumed(
        last=max(c.time for c in earlier),
        first=began,
        step_s=statistics.median(durations),
        redone=max(0, max(c.step for c in earlier) - min(c.step for c in first.values()) + 1),
    )


def lines(folder: Path, pattern: str) -> Iterator[dict[str, Any]]:
    """The complete lines of the files that match the pattern, decoded."""
    for path in sorted(folder.glob(pattern)):
        for line in path.read_text().split("\n")[:-1]:
            if line.endswith("}"):
                yield json.loads(line)


def read_journal(folder: Path) -> list[Commit]:
    """Commits of our jobs: the journal records the generation; each rank has its own file."""
    commits = []
    for path in sorted(folder.glob("steps-*.jsonl")):
        for line in lines(folder, path.name):
            commits.append(
                Commit(line["time"], path.stem, line["step"], line["size"], line["generation"])
            )
    return commits


def read_events(folder: Path) -> list[Commit]:
    """Commits of a peer's job. Without an era in the event, the process id serves as era."""
    steps = (line for line in lines(folder, "events-*.jsonl") if line["event"] == "step")
    return [
        Commit(e["time"], str(e["rank"]), e["step"], e["world"], e.get("era", e["pid"]))
        for e in steps
    ]


def lost_steps(commits: Iterable[Commit]) -> int:
    """Steps, up to the last, that were not committed in exactly one generation."""
    eras: dict[int, set[int]] = {}
    for commit in commits:
        eras.setdefault(commit.step, set()).add(commit.era)
    last = max(eras, default=0)
    return sum(len(eras.get(step, ())) != 1 for step in range(1, last + 1))


def lost_samples(folder: Path) -> int:
    """Micro-batches of committed steps in our journal that were not used exactly once."""
    micro_batches = json.loads((folder / "run.json").read_text())["micro_batches"]
    committed: dict[int, int] = {}
    for line in lines(folder, "steps-*.jsonl"):
        committed[line["step"]] = line["generation"]
    used: dict[tuple[int, int], int] = {}
    for line in lines(folder, "samples-*.jsonl"):
        if committed.get(line["step"]) == line["generation"]:
            used[line["step"], line["micro_batch"]] = (
                used.get((line["step"], line["micro_batch"]), 0) + 1
            )
    return sum(
        used.get((step, number), 0) != 1
        for step in range(1, max(committed, default=0) + 1)
        for number in range(micro_batches)
    )
