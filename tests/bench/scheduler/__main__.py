"""The benchmarks of the scheduler: `python -m tests.bench.scheduler [passes] [victims]`.

passes: the picture and the plan at 100, 1,000 and 10,000 Workloads.
victims: the plan of a claim on 100 to 1,000 jobs.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence

from tests.bench.scheduler import victims
from tests.bench.scheduler.pictures import SCENARIOS, SIZES
from tests.paths import TREE

GOAL_PASS_P99_MS = 50.0
GOAL_PEAK_MB = 400.0
GOAL_VICTIMS_MS = 250.0


def measure_passes(seconds: float) -> bool:
    """Prints a row for each cluster. Each is measured in a process of its own."""
    columns = (
        "workloads",
        "pods",
        "scenario",
        "passes",
        "take_p50_ms",
        "plan_p50_ms",
        "pass_p50_ms",
        "pass_p99_ms",
        "peak_mb",
        "answers_lost",
    )
    print_row(columns)
    met = True
    for size in SIZES:
        for scenario in SCENARIOS:
            command = [sys.executable, "-m", "tests.bench.scheduler.passes"]
            command += [str(size.workloads), scenario, "--seconds", str(seconds)]
            process = subprocess.run(command, cwd=TREE, text=True, capture_output=True, check=True)
            row = json.loads(process.stdout)
            print_row([row[column] for column in columns])
            met &= row["pass_p99_ms"] <= GOAL_PASS_P99_MS and row["peak_mb"] <= GOAL_PEAK_MB
            met &= row["answers_lost"] == 0
    print(f"goals: pass p99 ≤ {GOAL_PASS_P99_MS:g} ms, peak ≤ {GOAL_PEAK_MB:g} MB, 0 answers lost")
    return met


def measure_victims(seconds: float) -> bool:
    print_row(("victims", "elastic", "median_ms", "max_ms"))
    met = True
    for count in victims.COUNTS:
        for elastic in (True, False):
            durations = victims.measure(count, elastic=elastic)
            median = statistics.median(durations)
            print_row((count, elastic, round(median, 1), round(max(durations), 1)))
            met &= median <= GOAL_VICTIMS_MS
    print(f"goal: ≤ {GOAL_VICTIMS_MS:g} ms")
    return met


def print_row(cells: Iterable[object]) -> None:
    print(" ".join(f"{cell!s:>12}" for cell in cells), flush=True)


PARTS: dict[str, Callable[[float], bool]] = {
    "passes": measure_passes,
    "victims": measure_victims,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables. Returns 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scheduler", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=list(PARTS), help="by default all")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each row of `passes`")
    options = parser.parse_args(arguments)
    results = [PARTS[part](options.seconds) for part in options.parts or PARTS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
