"""Shrink, grow, rank killed, rank hung: the time without a commit.

torchft, NVRx and torchrun take their turn in each run.
"""

import os
import signal
import sys
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from tests.bench.runtime import memory, peers
from tests.bench.runtime.commits import lost_samples
from tests.bench.runtime.others import Nvrx, Torchft, Torchrun
from tests.bench.runtime.ours import Ours
from tests.bench.runtime.processes import TooLong
from tests.bench.runtime.table import Row, Samples

NAMES = ("shrink", "grow", "kill", "hang")
# A younger generation is not watched for hangs: its ranks compile and read.
WATCHED_S = 3.0
# A rank that sends nothing for this long counts as lost.
HEARTBEAT_S = 1.0


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
        for name, turn in turns:
            print(f"# run {run + 1}: {name}", file=sys.stderr, flush=True)
            try:
                turn()
            except TooLong as error:
                print(f"# {name}: {error}", file=sys.stderr)
        measured.add("memcpy", memory.memcpy_bytes_s())
    return [row for row in rows(measured) if row.name in (*wanted, "samples")]


def rows(measured: Samples) -> list[Row]:
    """The promises, one row for each peer."""
    shrink_most = min(0.060, 0.2 * measured.median("shrink step", 0.3))
    width = int(os.environ["BENCH_WIDTH"])
    # Parameters and AdamW's two moments of the job.
    state_bytes = 3 * 4 * 12 * (width * width + width)
    grow_most = 0.060 + state_bytes / (0.5 * measured.median("memcpy", 6e9))
    kill_most = 0.25 + measured.median("kill step", 0.3)
    hang_most = HEARTBEAT_S + 0.1 + measured.median("hang step", 0.3)
    shrink_note = (
        f"median {measured.median('shrink redone'):g} steps redone; request to first commit "
        f"{measured.median('shrink total steps'):.2f} steps"
    )
    shrink = "planned shrink 4→2 DDP: survivors' pause"
    return [
        Row(
            "shrink",
            shrink,
            "≤ 60 ms and ≤ 0.2 step; ≤ 1/80 of torchft",
            "s",
            measured["shrink"],
            "torchft",
            measured["torchft shrink"],
            shrink_most,
            1 / 80,
            note=shrink_note,
        ),
        Row(
            "shrink",
            shrink,
            "≤ 1/250 of torchrun tuned",
            "s",
            measured["shrink"],
            "torchrun",
            measured["torchrun shrink"],
            shrink_most,
            1 / 250,
        ),
        Row(
            "shrink",
            "… by the job's own clock: last commit until the next step may begin",
            "≤ 60 ms",
            "s",
            measured["shrink own"],
            at_most=0.060,
        ),
        Row(
            "samples",
            "micro-batches not used exactly once, in all rows above",
            "0",
            "",
            measured["samples lost"],
            at_most=0.0,
            always=True,
        ),
        Row(
            "kill",
            "rank killed → next commit of all survivors",
            "≤ 0.25 s + 1 step; ≤ 1/10 of torchft",
            "s",
            measured["kill"],
            "torchft",
            measured["torchft kill"],
            kill_most,
            1 / 10,
            note=f"median {measured.median('kill redone'):g} steps redone",
        ),
        Row(
            "kill",
            "the same",
            "≤ 1/6 of NVRx",
            "s",
            measured["kill"],
            "NVRx (gloo timeout 2 s)",
            measured["NVRx kill"],
            kill_most,
            1 / 6,
        ),
        Row(
            "kill",
            "the same",
            "≤ 1/20 of torchrun",
            "s",
            measured["kill"],
            "torchrun",
            measured["torchrun kill"],
            kill_most,
            1 / 20,
        ),
        Row(
            "hang",
            "rank stopped (SIGSTOP) → next commit of all survivors",
            f"heartbeat limit ({HEARTBEAT_S:g} s) + 0.1 s + 1 step",
            "s",
            measured["hang"],
            at_most=hang_most,
            note="" if measured["hang"] else "not freed within 30 s",
        ),
        Row(
            "grow",
            "grow 2→4: survivors' pause",
            "≤ 60 ms + state/(0.5 × memcpy); ≤ 1/2 of torchft",
            "s",
            measured["grow"],
            "torchft",
            measured["torchft grow"],
            grow_most,
            1 / 2,
            note=f"bound {grow_most * 1000:.0f} ms",
        ),
        Row(
            "grow",
            "the same",
            "≤ 1/80 of torchrun",
            "s",
            measured["grow"],
            "torchrun",
            measured["torchrun grow"],
            grow_most,
            1 / 80,
        ),
        Row(
            "grow",
            "… by the job's own clock",
            "≤ 60 ms + state/(0.5 × memcpy)",
            "s",
            measured["grow own"],
            at_most=grow_most,
        ),
        Row(
            "grow",
            "grow 2→4: request → warm joiners' first commit",
            "≤ 1 s; ≤ 1/4 of torchft",
            "s",
            measured["grow joiner"],
            "torchft (cold)",
            measured["torchft grow joiner"],
            1.0,
            1 / 4,
        ),
        Row(
            "grow",
            "the same",
            "≤ 1/8 of torchrun",
            "s",
            measured["grow joiner"],
            "torchrun (cold)",
            measured["torchrun grow joiner"],
            1.0,
            1 / 8,
        ),
    ]
