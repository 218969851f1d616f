"""Shrink, grow, rank killed, rank hung: the time without a commit.

torchft, NVRx and torchrun take their turn in each run.
"""

import signal
import sys
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from tests.bench.runtime import memory, peers
from tests.bench.runtime.bare_transfer import bare_transfer
from tests.bench.runtime.commits import lost_samples
from tests.bench.runtime.membership_rows import rows
from tests.bench.runtime.others import Nvrx, Torchft, Torchrun
from tests.bench.runtime.ours import Ours
from tests.bench.runtime.processes import TooLong
from tests.bench.runtime.table import Row, Samples

NAMES = ("shrink", "grow", "kill", "hang")
# A younger generation is not watched for hangs: its ranks compile and read.
WATCHED_S = 3.0


def ours(wanted: Collection[str], measured: Samples) -> None:
    """One of our jobs; the changes are requested in turn."""
    with Ours(4) as job:
        job.steady(4)
        if {"shrink", "grow"} & set(wanted):
            era = job.generation()
            asked, back = job.resized(2)
            measured.add("shrink", back.pause_s)
            measured.add("shrink own", max(job.own_pauses_s(era)))
            measured.add("shrink step", back.step_s)
            measured.add("shrink total steps", (back.first - asked) / back.step_s)
            measured.add("shrink redone", back.redone)
            era = job.generation()
            asked, back = job.resized(4)
            commits = [c for c in job.commits() if c.era > era]
            joined = [
                min(c.time for c in commits if c.rank == "steps-2-0"),
                min(c.time for c in commits if c.rank == "steps-3-0"),
            ]
            first = max(joined)
            measured.add("grow", back.pause_s)
            measured.add("grow own", max(job.own_pauses_s(era)))
            measured.add("grow joiner", first - asked)
        if "kill" in wanted:
            began, back = job.signal_rank(3, signal.SIGKILL, 3, 60)
            measured.add("kill", back.first - began)
            measured.add("kill step", back.step_s)
            measured.add("kill redone", back.redone)
            job.steady(4, after=back.first)
        if "hang" in wanted:
            try:
                job.settled(4, WATCHED_S)
                began, back = job.signal_rank(3, signal.SIGSTOP, 3, 30)
                measured.add("hang", back.first - began)
                measured.add("hang step", back.step_s)
            except TooLong as error:
                print(f"# hang: {error}", file=sys.stderr)
        measured.add("samples lost", lost_samples(job.log))


def torchft(path: Path, wanted: Collection[str], measured: Samples) -> None:
    """One group dies and comes back, then two die: torchft has no orderly leave."""
    with Torchft(path) as job:
        if {"kill", "grow"} & set(wanted):
            began, back = job.killed(1)
            measured.add("torchft kill", back.first - began)
        if "grow" in wanted:
            began, gap, first = job.grown(1)
            measured.add("torchft grow", gap)
            measured.add("torchft grow joiner", first - began)
        if "shrink" in wanted:
            job.steady(job.alive())
            _, back = job.killed(2)
            measured.add("torchft shrink", back.pause_s)


def nvrx(path: Path, measured: Samples) -> None:
    with Nvrx(path) as job:
        began, back = job.killed()
        measured.add("NVRx kill", back.first - began)


def torchrun(wanted: Collection[str], measured: Samples) -> None:
    if {"shrink", "grow"} & set(wanted):
        with Torchrun(4) as job:
            _, back = job.shrunk()
            measured.add("torchrun shrink", back.pause_s)
    if "grow" in wanted:
        with Torchrun(2) as job:
            began, back = job.grown()
            measured.add("torchrun grow", back.pause_s)
            measured.add("torchrun grow joiner", back.first - began)
    if "kill" in wanted:
        with Torchrun(4) as job:
            began, back = job.killed()
            measured.add("torchrun kill", back.first - began)


def measure(wanted: Collection[str], runs: int, torchrun_runs: int) -> list[Row]:
    """`runs` rounds of our job and each peer in turn.

    torchrun needs a minute for each event, so it takes part in the first `torchrun_runs` only.
    """
    measured = Samples()
    places = (
        {module: peers.install(module) for module in ("torchft", "nvidia_resiliency_ext")}
        if set(wanted) - {"hang"}
        else {}
    )
    for run in range(runs):
        turns: list[tuple[str, Callable[[], None]]] = [("ours", partial(ours, wanted, measured))]
        if place := places.get("torchft"):
            turns.append(("torchft", partial(torchft, place, wanted, measured)))
        if "kill" in wanted and (place := places.get("nvidia_resiliency_ext")):
            turns.append(("NVRx", partial(nvrx, place, measured)))
        if run < torchrun_runs and set(wanted) - {"hang"}:
            turns.append(("torchrun", partial(torchrun, wanted, measured)))
        if "grow" in wanted:
            turns.append(("bare transfer", partial(bare_transfer, 1, measured)))
        for name, turn in turns:
            print(f"# run {run + 1}: {name}", file=sys.stderr, flush=True)
            try:
                turn()
            except TooLong as error:
                print(f"# {name}: {error}", file=sys.stderr)
        measured.add("memcpy", memory.memcpy_bytes_s())
    return [row for row in rows(measured) if row.name in (*wanted, "samples")]
