"""The benchmarks of the scheduler: `python -m tests.bench.scheduler [PART …]`.

passes: the picture and the plan at 100, 1,000 and 10,000 Workloads.
events: 5,000 events of pods a second, beside passes with 10,000 Workloads.
victims: the plan of a claim on 100 to 1,000 jobs.
bursts: the writes of a pass that shrinks 300 jobs.
predictions: answers of `cede whatif` at 1,000 and 10,000 Workloads.
failover: seconds until the second replica leads after the first was killed, 10,000 Workloads.
owner: seconds until an owner has its quota back, beside stock Kueue; needs the local cluster.
rate: Kueue's admissions a second with Cede beside it; needs the local cluster.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from tests.bench.scheduler import (
    admission_rate,
    bursts,
    failover,
    predictions,
    time_to_owner,
    victims,
)
from tests.bench.scheduler.pictures import SCENARIOS, SIZES
from tests.paths import TREE

GOAL_PASS_P99_MS = 50.0
GOAL_PEAK_MB = 400.0
GOAL_VICTIMS_MS = 250.0
GOAL_LOOP_MS = 100.0
GOAL_BURST_MS = 300.0
GOAL_BEHIND_S = 1.0
GOAL_FAILOVER_S = 5.0
GOAL_ANSWER_S = 60.0
GOAL_STEP_S = 0.4
"""A step of the job of examples/gpt, on eight accelerators of the local cluster."""


def measure_passes(options: argparse.Namespace) -> bool:
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
        "cpu_p50_ms",
        "cpu_p99_ms",
        "peak_mb",
        "answers_lost",
        "loop_max_ms",
    )
    print_row(columns)
    met = True
    for size in SIZES:
        for scenario in SCENARIOS:
            command = [sys.executable, "-m", "tests.bench.scheduler.passes"]
            command += [str(size.workloads), scenario, "--seconds", str(options.seconds)]
            process = subprocess.run(command, cwd=TREE, text=True, capture_output=True, check=True)
            row = json.loads(process.stdout)
            print_row([row[column] for column in columns])
            met &= row["pass_p99_ms"] <= GOAL_PASS_P99_MS and row["peak_mb"] <= GOAL_PEAK_MB
            met &= row["answers_lost"] == 0 and row["loop_max_ms"] <= GOAL_LOOP_MS
    print(
        f"goals: pass p99 ≤ {GOAL_PASS_P99_MS:g} ms, peak ≤ {GOAL_PEAK_MB:g} MB, 0 answers lost, "
        f"loop still for ≤ {GOAL_LOOP_MS:g} ms"
    )
    return met


def measure_victims(_: argparse.Namespace) -> bool:
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


def measure_predictions(_: argparse.Namespace) -> bool:
    print_row(("workloads", "scenario", "question", "changes", "seconds"))
    met = True
    for size in SIZES[1:]:
        for scenario in SCENARIOS:
            for question in predictions.QUESTIONS:
                seconds, changes = predictions.measure(size, scenario, question)
                print_row((size.workloads, scenario, question, changes, f"{seconds:.1f}"))
                met &= seconds <= GOAL_ANSWER_S
    print(f"goal: ≤ {GOAL_ANSWER_S:g} s")
    return met


def measure_events(options: argparse.Namespace) -> bool:
    columns = ("pods", "events", "passes", "behind_s", "answers_lost", "loop_max_ms")
    print_row(columns)
    command = [sys.executable, "-m", "tests.bench.scheduler.watch_events"]
    command += [str(SIZES[-1].workloads), "--seconds", str(options.seconds)]
    process = subprocess.run(command, cwd=TREE, text=True, capture_output=True, check=True)
    row = json.loads(process.stdout)
    print_row([row[column] for column in columns])
    print(f"goals: at most {GOAL_BEHIND_S:g} s behind, 0 answers lost")
    return bool(row["behind_s"] <= GOAL_BEHIND_S and row["answers_lost"] == 0)


def measure_bursts(options: argparse.Namespace) -> bool:
    together, singles = bursts.measure(options.times)
    print_row(("patches", "n", "median_ms", "min", "max"))
    for name, values in (("one pass", together), ("one by one", singles)):
        spread = (statistics.median(values), min(values), max(values))
        print_row((name, len(values), *(f"{value:.0f}" for value in spread)))
    print(f"goal: ≤ {GOAL_BURST_MS:g} ms for {bursts.JOB_COUNT} jobs")
    return statistics.median(together) <= GOAL_BURST_MS


def measure_failover(options: argparse.Namespace) -> bool:
    durations = failover.measure(SIZES[-1], options.times)
    print_row(("n", "median_s", "min_s", "max_s"))
    spread = (statistics.median(durations), min(durations), max(durations))
    print_row((len(durations), *(f"{seconds:.2f}" for seconds in spread)))
    print(f"goal: ≤ {GOAL_FAILOVER_S:g} s")
    return max(durations) <= GOAL_FAILOVER_S


def measure_owner(options: argparse.Namespace) -> bool:
    cases = time_to_owner.CASES[: options.cases]
    samples = asyncio.run(time_to_owner.measure(cases, options.times))
    print_row(("claim", "side", "n", "median_s", "min_s", "max_s", "ratio", "stages"))
    met = True
    for case, sides in samples.items():
        stock = statistics.median(sample.wait for sample in sides["kueue"])
        for side, values in sides.items():
            waits = [sample.wait for sample in values]
            median = statistics.median(waits)
            spread = (median, min(waits), max(waits))
            figures = (len(waits), *(f"{seconds:.2f}" for seconds in spread))
            stages = ", ".join(median_stages(values))
            print_row((case, side, *figures, f"{median / stock:.2f}", stages))
            met &= median <= stock + GOAL_STEP_S
    print(f"goal: the median of stock Kueue and one step ({GOAL_STEP_S:g} s)")
    return met


def median_stages(samples: Sequence[time_to_owner.Sample]) -> Iterator[str]:
    """Each stage with its median."""
    for stage in samples[0].stages:
        seconds = [sample.stages.get(stage, 0.0) for sample in samples]
        yield f"{stage} {statistics.median(seconds):.2f}"


def measure_rate(options: argparse.Namespace) -> bool:
    beside, alone = admission_rate.measure(options.times)
    print_row(("side", "n", "median_per_s", "min", "max"))
    for side, rates in (("with Cede", beside), ("without", alone)):
        spread = (statistics.median(rates), min(rates), max(rates))
        figures = [f"{rate:.1f}" for rate in spread]
        print_row((side, len(rates), *figures))
    ratio = admission_rate.ratio(beside, alone)
    print(f"ratio {ratio:.2f}; goal: ≥ {admission_rate.GOAL_RATIO}")
    return ratio >= admission_rate.GOAL_RATIO


def print_row(cells: Iterable[object]) -> None:
    print(" ".join(f"{cell!s:>12}" for cell in cells), flush=True)


PARTS: dict[str, Callable[[argparse.Namespace], bool]] = {
    "passes": measure_passes,
    "events": measure_events,
    "victims": measure_victims,
    "bursts": measure_bursts,
    "predictions": measure_predictions,
    "failover": measure_failover,
    "owner": measure_owner,
    "rate": measure_rate,
}
WITHOUT_CLUSTER = ("passes", "events", "victims", "bursts", "predictions", "failover")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables. Returns 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scheduler", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", choices=list(PARTS), help=f"default: {' '.join(WITHOUT_CLUSTER)}"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of each row of passes, events")
    parser.add_argument("--times", type=int, default=5, help="samples of the other parts")
    parser.add_argument("--cases", type=int, default=None, help="the first cases of `owner` only")
    options = parser.parse_args(arguments)
    results = [PARTS[part](options) for part in options.parts or WITHOUT_CLUSTER]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
