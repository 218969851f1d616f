"""Scale and endurance: a job of many ranks, and 500 resizes with killed ranks.

A rank that has imported torch has 300 MB of its own. So agents and ranks of the large job are forks
of one process that has imported it: they are processes as ever, but start without the import.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

from elastic_runtime import contract
from elastic_runtime.contract import Status
from tests.bench.runtime.commits import lost_samples
from tests.bench.runtime.ours import Ours
from tests.bench.runtime.processes import TooLong
from tests.bench.runtime.table import Row, Samples
from tests.harness.forked_job import ForkedJob, forks_of

NAMES = ("world", "resizes")
TREE = Path(__file__).parents[3]
# Width of the job's layers.
WIDTH = 64
# Ranks.
LARGEST = 64
QUICK_LARGEST = 16
# All processes share the cores of this machine.
START_S = 900.0
# Resizes with and without --quick.
QUICK_RESIZES = 50
RESIZES = 500


class Forks(Ours):
    """Our job, of forks."""

    def begin(self) -> None:
        # The first fork reads it, before it imports torch.
        os.environ["OMP_NUM_THREADS"] = "1"
        script = Path(self.words[0]).read_text()
        self._job = ForkedJob(forks_of("tests.bench.runtime.workers.job"), self.folder, script)
        self._job.env |= self.env | {contract.SIZES_ENV: f"1,{self.pods}"}
        self._job.start(*range(self.pods))
        self.processes += self._job.pods.values()

    def call(self, method: str, path: str, body: bytes = b"") -> Status:
        return self._job.call(method, path, body)


def sizes(largest: int) -> list[int]:
    """The world and its halves, down to 8."""
    return [size for halved in range(largest.bit_length()) if (size := largest >> halved) >= 8]


def world(measured: Samples, largest: int) -> None:
    """One job: its start, the pause of every halving down to 4, and of the growth back."""
    began = time.time()
    with Forks(largest, BENCH_WIDTH=str(WIDTH), BENCH_MICRO_BATCHES=str(largest)) as job:
        job.steady(largest, steps=3, seconds=START_S)
        first: dict[str, float] = {}
        for commit in sorted(job.commits(), key=lambda c: c.time):
            first.setdefault(commit.rank, commit.time)
        measured.add("start", max(first.values()) - began)
        for size in sizes(largest):
            measured.add(f"step {size}", job.step_s())
            _, back = job.resized(size // 2)
            measured.add(f"shrink {size}", back.pause_s)
        _, back = job.resized(largest)
        measured.add("grow", back.pause_s)
        measured.add("lost", lost_samples(job.log))


def resizes(measured: Samples, count: int) -> str:
    """Runs the long form of the test suite's own test; returns the line it prints at its end."""
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
    measured.add("failures", float(done.returncode != 0))
    summary = re.search(r"\d+ resizes, .*", done.stdout)
    return summary[0] if summary else done.stdout[-300:].replace("\n", " ")


def measure(wanted: Collection[str], quick: bool, processes: int) -> list[Row]:
    measured = Samples()
    rows = list[Row]()
    largest = min(processes, QUICK_LARGEST) if quick else processes
    if "world" in wanted:
        print(f"# {largest} processes", file=sys.stderr, flush=True)
        # One run: only "nothing is lost" is promised.
        try:
            world(measured, largest)
        except TooLong as error:
            print(f"# world: {error}", file=sys.stderr)
            measured.add("lost", 1.0)
        growth = ", ".join(
            (
                f"{size}→{size // 2} {measured.median(f'shrink {size}'):.2f} s with steps of "
                f"{measured.median(f'step {size}'):.2f} s"
            )
            for size in sizes(largest)
        )
        scenario = f"{largest} processes on {os.cpu_count()} cores"
        rows += [
            Row(
                "world",
                f"{scenario}: start to the last rank's first commit",
                "stated",
                "s",
                measured["start"],
                note="they are forks, which need not import torch",
            ),
            Row(
                "world",
                f"{scenario}: pause of a shrink to half",
                "stated, with size",
                "s",
                measured[f"shrink {largest}"],
                note=growth,
            ),
            Row(
                "world",
                f"{scenario}: pause of growing back from 4",
                "stated",
                "s",
                measured["grow"],
            ),
            Row(
                "world",
                f"{scenario}: micro-batches not used exactly once",
                "0",
                "",
                measured["lost"],
                at_most=0.0,
                always=True,
            ),
        ]
    if "resizes" in wanted:
        count = QUICK_RESIZES if quick else RESIZES
        print(f"# {count} resizes", file=sys.stderr, flush=True)
        note = resizes(measured, count)
        rows.append(
            Row(
                "resizes",
                f"{count} random resizes with kills: failures",
                "nothing lost, nothing left behind",
                "",
                measured["failures"],
                at_most=0.0,
                always=True,
                note=note,
            )
        )
    return rows
