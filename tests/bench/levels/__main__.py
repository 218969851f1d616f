"""What each level costs when an owner takes half of a job's accelerators back, and goes again.

`python -m tests.bench.levels [--runs N] [--only ROW ...]`: prints the table, and writes
bench-levels.json. It needs the local cluster, and removes the teams that are there.

All rows train the same tiny model: a step takes 0.4 s with four ranks and 0.8 s with two, and every
tenth step is saved. The owner's job for two accelerators comes half-way between two saves.

seconds to owner: from the creation of the owner's Workload to its last running pod.
seconds to first step: of the target, from the same moment to its first step with two ranks. A job
that was stopped has no such step: from the end of the owner's job, when its accelerators are free
again, to its first step with all four.
steps lost: those that its journal has twice, or not at all, after the take-back and the return.
accelerator-seconds lost: each accelerator of the target counts while the target holds it without a
useful step, or has left it and the owner does not run on it yet: from its last step that counts.
So a repeated step counts with its time. At the return, it counts from the start of its pod to its
first step, and those of pods that stay while there is no step. What a stopped job frees and the
owner does not want is not counted while the owner runs: others may use it.

L0 and the killed job are one pod with four ranks under torchrun, L1 and L2 four pods of one. The
killed job has the same script without a handler of SIGTERM, in the mode Observe, in which only
stock Kueue preempts. The last four rows are processes of this machine, without a cluster: nobody
waits for the accelerators, and only the take-back counts, not the return. In two of them nobody
takes anything: a rank is killed, half-way between two saves, and all train again.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.bench.levels import as_processes, on_cluster
from tests.bench.levels.figures import Cost
from tests.bench.levels.jobs import LEVELS
from tests.bench.runtime.table import spread_text
from tests.paths import TREE

LABELS = {level.name: level.label for level in LEVELS}
LABELS |= {name: side.label for name, side in as_processes.SIDES.items()}
COLUMNS: dict[str, Callable[[Cost], float | None]] = {
    "seconds to owner": lambda cost: cost.owner_s,
    "seconds to first step": lambda cost: cost.first_step_s,
    "steps lost": lambda cost: cost.steps_lost,
    "accelerator-seconds lost": lambda cost: cost.accelerator_s_lost,
}
Results = Mapping[str, Sequence[Cost] | str]


def table(results: Results) -> Iterator[str]:
    """Lines of Markdown: the median of each figure, with its least and its largest."""
    yield f"| level | runs | {' | '.join(COLUMNS)} |"
    yield "|---" * (len(COLUMNS) + 2) + "|"
    for name, costs in results.items():
        if isinstance(costs, str):
            yield f"| {LABELS[name]} | 0 | {costs} |" + " |" * (len(COLUMNS) - 1)
            continue
        cells = [spread_text(values(costs, column)) for column in COLUMNS]
        yield f"| {LABELS[name]} | {len(costs)} | {' | '.join(cells)} |"


def values(costs: Sequence[Cost], column: str) -> list[float]:
    """Those that were measured, in the order of the runs."""
    return [value for cost in costs if (value := COLUMNS[column](cost)) is not None]


def columns(costs: Sequence[Cost]) -> dict[str, list[float]]:
    """By name, in the order of the runs."""
    return {column: values(costs, column) for column in COLUMNS}


def document(results: Results, facts: Mapping[str, object]) -> str:
    """The text of bench-levels.json."""
    rows = {
        name: costs if isinstance(costs, str) else columns(costs) for name, costs in results.items()
    }
    return json.dumps({**facts, "rows": rows}, indent=1) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a row was not measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.levels", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--runs", type=int, default=5, help="of each row (default: 5)")
    parser.add_argument("--only", nargs="*", choices=list(LABELS), default=list(LABELS))
    options = parser.parse_args(arguments)
    facts = {"runs": options.runs, "cores": os.cpu_count(), "load_before": os.getloadavg()}
    began = time.time()
    results: dict[str, list[Cost] | str] = {}

    def note(name: str, costs: list[Cost] | str) -> None:
        """Writes what there is: the other rows may take long."""
        results[name] = costs
        now = {"load_after": os.getloadavg(), "seconds": round(time.time() - began)}
        (TREE / "bench-levels.json").write_text(document(results, facts | now))

    if levels := [level for level in LEVELS if level.name in options.only]:
        asyncio.run(on_cluster.measure(levels, options.runs, note))
    if sides := [name for name in as_processes.SIDES if name in options.only]:
        for name, costs in as_processes.measure(sides, options.runs).items():
            note(name, costs)
    print("\n".join(table(results)))
    return 1 if any(isinstance(costs, str) for costs in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
