"""What a job's own lines say of a change of membership: how long nobody committed a step, and what
was lost. Pure but for the reading."""

import json
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Commit:
    """One rank's line for one step it committed."""

    # Unix seconds
    time: float
    who: str
    step: int
    world: int
    # grows with every change of membership: generation, restart, process
    era: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """How a job came back."""

    # Unix seconds of the last commit of the era before, by anybody
    last: float
    # when everybody in the new era had committed its first step
    first: float
    # of a step in the new era, median
    step_s: float
    # steps that were committed twice: before, and after again
    redone: int

    @property
    def pause_s(self) -> float:
        """No commit for so long, less the one step that had to be done meanwhile."""
        return max(0.0, self.first - self.last - self.step_s)


def resumed(
    commits: Iterable[Commit], new: Callable[[Commit], bool], world: int, more: int = 5
) -> Resumed | None:
    """None until `world` ranks have committed `more` steps after their first in the era that `new`
    tells."""
    first: dict[str, Commit] = {}
    took: dict[str, list[float]] = {}
    before: list[Commit] = []
    at: dict[str, float] = {}
    for one in sorted(commits, key=lambda c: c.time):
        if not (new(one) and one.world == world):
            before.append(one)
            continue
        first.setdefault(one.who, one)
        if one.who in at:
            took.setdefault(one.who, []).append(one.time - at[one.who])
        at[one.who] = one.time
    if len(first) < world or any(len(took.get(who, [])) < more for who in first):
        return None
    began = max(c.time for c in first.values())
    earlier = [c for c in before if c.time < min(c.time for c in first.values())]
    return Resumed(
        last=max(c.time for c in earlier),
        first=began,
        step_s=statistics.median(s for of in took.values() for s in of),
        redone=max(0, max(c.step for c in earlier) - min(c.step for c in first.values()) + 1),
    )


def lines(folder: Path, pattern: str) -> Iterator[dict[str, Any]]:
    """Every whole line of the files that match."""
    for path in sorted(folder.glob(pattern)):
        for line in path.read_text().split("\n")[:-1]:
            if line.endswith("}"):
                yield json.loads(line)


def of_journal(folder: Path) -> list[Commit]:
    """Ours: the journal names the generation; a rank is told by its file."""
    found = []
    for path in sorted(folder.glob("steps-*.jsonl")):
        for line in lines(folder, path.name):
            found.append(
                Commit(line["time"], path.stem, line["step"], line["size"], line["generation"])
            )
    return found


def of_events(folder: Path) -> list[Commit]:
    """A peer's: where it has no word for the era, the process stands for it."""
    steps = (line for line in lines(folder, "events-*.jsonl") if line["event"] == "step")
    return [
        Commit(e["time"], str(e["who"]), e["step"], e["world"], e.get("era", e["pid"]))
        for e in steps
    ]


def lost_samples(folder: Path) -> int:
    """Of our journal: micro-batches of committed steps that were not used exactly once. 0 is what
    is promised."""
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
