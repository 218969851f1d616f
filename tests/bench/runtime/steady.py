"""The cost of a step, beside a bare loop with the same hooks and beside DDP.

The three are interleaved step by step.
"""

import os
import statistics
import sys
from collections.abc import Collection
from typing import Any

from tests.bench.runtime.commits import lines
from tests.bench.runtime.ours import Ours
from tests.bench.runtime.processes import TooLong, until
from tests.bench.runtime.table import Row, Samples

NAMES = ("steady",)
# The cost may be half a percent of a step of this length.
STEP_S = 0.3
# Layers so narrow that a step takes almost no time and the fixed cost shows.
SMALL = 64


def interleaved(steps: int, width: int) -> dict[str, Any]:
    """For each of the three, the seconds of every step and its collectives in one step."""
    with Ours(2, "steady.py", str(steps), BENCH_WIDTH=str(width)) as job:
        return until(
            lambda: next(lines(job.folder, "events-steady-*.jsonl"), None),
            600,
            f"{steps} steps ({job.output()})",
        )


def measure(wanted: Collection[str], runs: int, quick: bool) -> list[Row]:
    measured = Samples()
    for run in range(runs):
        print(f"# run {run + 1}: a step's cost", file=sys.stderr, flush=True)
        try:
            small = interleaved(100 if quick else 500, SMALL)
            whole = interleaved(20 if quick else 60, int(os.environ["BENCH_WIDTH"]))
        except TooLong as error:
            print(f"# steady: {error}", file=sys.stderr)
            continue
        fixed = [
            a - b for a, b in zip(small["seconds"]["ours"], small["seconds"]["bare"], strict=False)
        ]
        measured.add("fixed", statistics.median(fixed) / STEP_S * 100)
        for name in ("ours", "bare", "ddp"):
            measured.add(name, statistics.median(whole["seconds"][name]))
            measured.add(f"{name} collectives", whole["collectives"].get(name))
    return [
        Row(
            "steady",
            f"steady state: our share of a step of {STEP_S:g} s",
            "≤ 0.5 %",
            "%",
            measured["fixed"],
            "none: bare loop, same hooks",
            at_most=0.5,
            note="median of the differences of adjacent steps of a small model",
        ),
        Row(
            "steady",
            "a whole step (12.6 million parameters, 2 ranks)",
            "≤ 1.005 × a bare loop",
            "s",
            measured["ours"],
            "bare loop, same hooks",
            measured["bare"],
            ratio_at_most=1.005,
        ),
        Row(
            "steady",
            "the same",
            "≤ 1.005 × DDP",
            "s",
            measured["ours"],
            "DDP",
            measured["ddp"],
            ratio_at_most=1.005,
        ),
        Row(
            "steady",
            "collectives per step",
            "no more than a bare loop that reduces its loss",
            "",
            measured["ours collectives"],
            "bare loop, same hooks",
            measured["bare collectives"],
            ratio_at_most=1.0,
        ),
    ]
