"""Many at once, and many times: a world of 64 processes, and 500 resizes with ranks killed on the
way."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

from tests.bench.runtime.commits import lost_samples
from tests.bench.runtime.ours import Ours
from tests.bench.runtime.processes import TooLong
from tests.bench.runtime.table import Row, Samples

NAMES = ("world", "resizes")
TREE = Path(__file__).parents[3]
# of the job's layers; ranks; 64 of them import torch on this machine's cores
WIDTH = 64
LARGEST = 64
START_S = 900.0
# resizes
TRIAL = 50
WHOLE = 500


def sizes(largest: int) -> list[int]:
    """The world and its halves, down to 8."""
    return [largest >> halved for halved in range(4) if largest >> halved >= 8]


def world(out: Samples, largest: int) -> None:
    """One job: its start, then the pause of every halving down to 4, and of the growth back."""
    began = time.time()
    with Ours(largest, BENCH_WIDTH=str(WIDTH), BENCH_MICRO_BATCHES=str(largest)) as job:
        job.steady(largest, steps=3, seconds=START_S)
        out.add(
            "start",
            max(
                min(c.time for c in job.commits() if c.who == who)
                for who in {c.who for c in job.commits()}
            )
            - began,
        )
        for size in sizes(largest):
            out.add(f"step {size}", job.step_s())
            _, back = job.resized(size // 2)
            out.add(f"shrink {size}", back.pause_s)
        _, back = job.resized(largest)
        out.add("grow", back.pause_s)
        out.add("lost", lost_samples(job.log))


def resizes(out: Samples, count: int) -> str:
    """The suite's own test in its long form, and what it says at its end."""
    env = os.environ | {"CEDE_RESIZES": str(count)}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        "tests/processes/test_random_faults.py",
    ]
    done = subprocess.run(words, cwd=TREE, env=env, capture_output=True, text=True)
    out.add("failures", float(done.returncode != 0))
    said = re.search(r"\d+ resizes, .*", done.stdout)
    return said[0] if said else done.stdout[-300:].replace("\n", " ")


def measure(wanted: Collection[str], quick: bool) -> list[Row]:
    out = Samples()
    rows = list[Row]()
    largest = 16 if quick else LARGEST
    if "world" in wanted:
        print(f"# {largest} processes", file=sys.stderr, flush=True)
        # once: nothing is promised but that nothing is lost
        try:
            world(out, largest)
        except TooLong as error:
            print(f"# world: {error}", file=sys.stderr)
            out.add("lost", 1.0)
        growth = ", ".join(
            (
                f"{size}→{size // 2} {out.median(f'shrink {size}'):.2f} s of steps of "
                f"{out.median(f'step {size}'):.2f} s"
            )
            for size in sizes(largest)
        )
        of = f"{largest} processes on {os.cpu_count()} cores"
        rows += [
            Row(
                "world",
                f"{of}: start to everybody's first commit",
                "stated",
                "s",
                out["start"],
                note="imports of torch, almost all",
            ),
            Row(
                "world",
                f"{of}: pause of a shrink to half",
                "stated, with size",
                "s",
                out[f"shrink {largest}"],
                note=growth,
            ),
            Row("world", f"{of}: pause of growing back from 4", "stated", "s", out["grow"]),
            Row(
                "world",
                f"{of}: micro-batches not used exactly once",
                "0",
                "",
                out["lost"],
                at_most=0.0,
                always=True,
            ),
        ]
    if "resizes" in wanted:
        count = TRIAL if quick else WHOLE
        print(f"# {count} resizes", file=sys.stderr, flush=True)
        note = resizes(out, count)
        rows.append(
            Row(
                "resizes",
                f"{count} random resizes with kills: failures",
                "nothing lost, nothing left behind",
                "",
                out["failures"],
                at_most=0.0,
                always=True,
                note=note,
            )
        )
    return rows
