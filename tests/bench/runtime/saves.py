"""The cost of a save: the stall of the ranks, and the throughput beside the bare disk."""

import statistics
import sys
from collections.abc import Collection

from tests.bench.runtime import peers
from tests.bench.runtime.commits import lines
from tests.bench.runtime.ours import Ours
from tests.bench.runtime.processes import WORKERS, Job, TooLong, until
from tests.bench.runtime.table import Row, Samples

NAMES = ("stall", "disk")
RANKS = 4


def stall(runs: int, mib: int, measured: Samples) -> None:
    """For every save, the largest of all ranks of what `stalls` measures, in seconds."""
    path = peers.install("torch_checkpointing")
    with Ours(
        RANKS, "stalls.py", str(RANKS), str(runs), paths=[path] if path else [], BENCH_MIB=str(mib)
    ) as job:

        def all_there() -> bool | None:
            if len(list(lines(job.folder, "events-*.jsonl"))) >= RANKS:
                return True
            job.raise_if_ended()
            return None

        until(all_there, 240, f"{runs} saves ({job.output()})")
        stalls = [line["stalls"] for line in lines(job.folder, "events-*.jsonl")]
    for name in stalls[0]:
        for values in zip(*(rank[name] for rank in stalls), strict=False):
            measured.add(name, max(values))


def disk(runs: int, mib: int, measured: Samples) -> None:
    """GB/s of durable writes and cold reads, and of the hash that both need."""
    with Job(BENCH_MIB=str(mib)) as job:
        job.start(str(WORKERS / "disk.py"), str(runs))
        job.wait(900)
        for line in lines(job.folder, "events-disk-*.jsonl"):
            for direction in ("write", "read", "hash"):
                for contender, seconds in line[direction].items():
                    measured.add(f"{contender} {direction}", mib * (1 << 20) / 1e9 / seconds)


def measure(wanted: Collection[str], runs: int, quick: bool) -> list[Row]:
    measured = Samples()
    mib = 32 if quick else 160
    large = 64 if quick else 512
    try:
        if "stall" in wanted:
            print("# stall of a save", file=sys.stderr, flush=True)
            stall(runs, mib, measured)
        if "disk" in wanted:
            print("# save and load", file=sys.stderr, flush=True)
            disk(runs, large, measured)
    except TooLong as error:
        print(f"# {error}", file=sys.stderr)
    most = 1.5 * statistics.median(measured["quarter"]) + 0.005 if measured["quarter"] else None
    stall_of_all = f"checkpoint stall, DDP of {RANKS}, {mib} MiB"
    note = f"bound {most * 1000:.0f} ms" if most else ""
    rows = [
        Row(
            "stall",
            stall_of_all,
            "≤ 1.5 × (state/N)/memcpy + 5 ms; ≤ 1/3 of DCP async, kept stager",
            "s",
            measured["ours"],
            "DCP async, kept stager",
            measured["dcp"],
            most,
            1 / 3,
            note=note,
        ),
        Row(
            "stall",
            "the same",
            "≤ torch_checkpointing",
            "s",
            measured["ours"],
            "torch_checkpointing",
            measured["other"],
            ratio_at_most=1.0,
        ),
        Row(
            "stall",
            "of it, the call that copies",
            "the machine's floor",
            "s",
            measured["ours call"],
            f"a bare copy, {RANKS} processes at once",
            measured["quarter"],
        ),
        Row(
            "stall",
            "all that training loses until it is durable",
            "beside DCP async",
            "s",
            measured["ours in all"],
            "DCP async, kept stager",
            measured["dcp in all"],
        ),
        Row(
            "disk",
            f"durable write, {large} MiB",
            "≥ 0.85 of raw disk",
            "GB/s",
            measured["ours write"],
            "raw disk, direct, fsync",
            measured["raw write"],
            ratio_at_least=0.85,
        ),
        Row(
            "disk",
            "the same",
            "≥ 1.5 × dcp.save",
            "GB/s",
            measured["ours write"],
            "dcp.save",
            measured["dcp write"],
            ratio_at_least=1.5,
        ),
        Row(
            "disk",
            "the same",
            "beside hashing",
            "GB/s",
            measured["ours write"],
            "sha256 alone, one core (ours has two)",
            measured["sha256 hash"],
        ),
        Row(
            "disk",
            f"cold load, {large} MiB",
            "≥ 0.85 of raw disk",
            "GB/s",
            measured["ours read"],
            "raw disk",
            measured["raw read"],
            ratio_at_least=0.85,
        ),
        Row(
            "disk",
            "the same",
            "≥ 1.3 × dcp.load",
            "GB/s",
            measured["ours read"],
            "dcp.load",
            measured["dcp read"],
            ratio_at_least=1.3,
        ),
        Row(
            "disk",
            "the same",
            "beside hashing",
            "GB/s",
            measured["ours read"],
            "sha256 alone, one core (ours has two)",
            measured["sha256 hash"],
        ),
    ]
    return [row for row in rows if row.name in wanted]
