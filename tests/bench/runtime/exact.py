"""Exactness: a job that shrinks, grows and loses a rank, compared with an undisturbed run.

Compared are losses, samples and their order.
"""

import signal
import sys
from collections.abc import Collection
from pathlib import Path

from tests.bench.runtime.commits import lines
from tests.bench.runtime.ours import Ours
from tests.bench.runtime.processes import WORKERS, Job, TooLong, until
from tests.bench.runtime.table import Row, Samples

NAMES = ("exact",)
# Of the job's layers; small, because speed is not measured here.
WIDTH = 256


def losses(log: Path) -> dict[int, float]:
    return {line["step"]: line["loss"] for line in lines(log, "steps-*.jsonl")}


def samples(log: Path, last: int) -> list[tuple[int, int, list[int]]]:
    """(step, micro-batch, samples) of every committed step up to `last`, in order.

    A sample that was used twice appears twice.
    """
    committed = {line["step"]: line["generation"] for line in lines(log, "steps-*.jsonl")}
    used = [
        line
        for line in lines(log, "samples-*.jsonl")
        if committed.get(line["step"]) == line["generation"]
    ]
    return sorted(
        (line["step"], line["micro_batch"], line["samples"])
        for line in used
        if line["step"] <= last
    )


def alone(last: int) -> tuple[dict[int, float], list[tuple[int, int, list[int]]]]:
    """Losses and samples of the script without an agent, until step `last`."""
    with Job(BENCH_WIDTH=str(WIDTH)) as job:
        job.start(str(WORKERS / "with_elastic_runtime.py"))
        log = job.folder / "log"
        until(
            lambda: True if max(losses(log), default=0) > last else None,
            300,
            f"{last} steps alone ({job.output()})",
        )
        return losses(log), samples(log, last)


def compare_once(measured: Samples) -> None:
    with Ours(4, BENCH_WIDTH=str(WIDTH)) as job:
        job.steady(4)
        job.resized(2)
        job.resized(3)
        _, back = job.signal_rank(1, signal.SIGKILL, 2, 60)
        job.steady(3, after=back.first)
        job.resized(1)
        job.resized(4)
        ours = losses(job.log)
        last = max(ours) - 1
        used = samples(job.log, last)
    theirs, expected = alone(last)
    measured.add(
        "loss",
        max(abs(ours[step] - theirs[step]) / abs(theirs[step]) for step in range(1, last + 1)),
    )
    measured.add(
        "samples",
        sum(a != b for a, b in zip(used, expected, strict=False)) + abs(len(used) - len(expected)),
    )
    measured.add("steps", last)


def measure(wanted: Collection[str], runs: int) -> list[Row]:
    measured = Samples()
    for run in range(runs):
        print(f"# run {run + 1}: exactness", file=sys.stderr, flush=True)
        try:
            compare_once(measured)
        except TooLong as error:
            print(f"# exact: {error}", file=sys.stderr)
            measured.add("loss", 1.0)
    scenario = f"4→2→3, one rank killed, →1→4; median {measured.median('steps', 0):g} steps"
    return [
        Row(
            "exact",
            f"loss against the undisturbed run, largest relative difference: {scenario}",
            "≤ 1e-6",
            "",
            measured["loss"],
            "the same script alone",
            at_most=1e-6,
            always=True,
        ),
        Row(
            "exact",
            "samples that differ or stand in another place",
            "0",
            "",
            measured["samples"],
            "the same script alone",
            at_most=0.0,
            always=True,
        ),
    ]
