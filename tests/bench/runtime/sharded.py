"""FSDP2: the survivors' pause when half of the ranks leave.

The peer is a save and load with DCP in the same processes.
"""

import os
import statistics
import sys
from collections.abc import Collection

from tests.bench.runtime import memory
from tests.bench.runtime.bare_transfer import bare_transfer
from tests.bench.runtime.commits import lines
from tests.bench.runtime.ours import Ours
from tests.bench.runtime.processes import TooLong, until
from tests.bench.runtime.table import Row, Samples

NAMES = ("fsdp",)


def shrink_once(measured: Samples) -> None:
    with Ours(4, "with_sharded.py") as job:
        job.steady(4)

        def compared() -> list[float] | None:
            seconds = [
                line["seconds"]
                for line in lines(job.folder, "events-*.jsonl")
                if line["event"] == "dcp" and line["world"] == 4
            ]
            return seconds if len(seconds) >= 4 else None

        measured.add("dcp", max(until(compared, 120, "DCP's save and load")[:4]))
        era = job.generation()
        _, back = job.resized(2)
        measured.add("gap", back.pause_s)
        measured.add("own", max(job.own_pauses_s(era)))


def measure(wanted: Collection[str], runs: int) -> list[Row]:
    measured = Samples()
    width = int(os.environ["BENCH_WIDTH"])
    for run in range(runs):
        print(f"# run {run + 1}: FSDP2", file=sys.stderr, flush=True)
        try:
            shrink_once(measured)
            measured.add("memcpy", memory.memcpy_bytes_s())
            # each of the two ranks that leave has a quarter
            bare_transfer(4, measured)
        except TooLong as error:
            print(f"# fsdp: {error}", file=sys.stderr)
    # Bytes of parameters and both moments on the two ranks that leave.
    moved = 3 * 4 * 12 * (width * width + width) / 2
    most = (
        0.080 + moved / (0.55 * statistics.median(measured["memcpy"]))
        if measured["memcpy"]
        else None
    )
    shrink = "planned shrink 4→2 FSDP2: survivors' pause"
    note = (
        f"bound {most * 1000:.0f} ms; DCP without a plan over the ranks, at the same size"
        if most
        else ""
    )
    goal = "≤ 80 ms + moved bytes/(0.55 × memcpy); ≤ 1/6 of DCP save + load"
    return [
        Row(
            "fsdp",
            shrink,
            goal,
            "s",
            measured["gap"],
            "DCP save + load",
            measured["dcp"],
            most,
            1 / 6,
            note=note,
        ),
        Row(
            "fsdp",
            "… by the job's own clock: last commit until the next step may begin",
            goal,
            "s",
            measured["own"],
            "DCP save + load",
            measured["dcp"],
            most,
            1 / 6,
        ),
        Row(
            "fsdp",
            "the same",
            "the machine's floor",
            "s",
            measured["own"],
            "the shards that leave, bare over gloo",
            measured["gloo"],
        ),
    ]
