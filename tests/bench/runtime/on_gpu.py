"""What our waits for the GPU cost a step: `python -m tests.bench.runtime.on_gpu [-o json]`.

A loop that never waits queues the next step while the GPU still computes. Ours waits once a step,
to vote whether all ranks have their gradients, and reads the loss. One rank, with NCCL as several
ranks have it.
"""

import argparse
import os
import platform
import signal
import sys
from typing import Any

import torch

from tests.bench.runtime import table
from tests.bench.runtime.commits import lines
from tests.bench.runtime.ours import Ours
from tests.bench.runtime.processes import TooLong, until
from tests.bench.runtime.table import Row

# By size: width, layers, sequences, length and steps of a block.
SIZES = {
    "cuda": {
        "short (about 5 ms)": (1024, 2, 4, 1024, 50),
        "middle (about 27 ms)": (2048, 4, 8, 1024, 20),
        "long (about 100 ms)": (2048, 8, 16, 1024, 10),
    },
    # To try the benchmark.
    "cpu": {"tiny": (16, 1, 2, 4, 3)},
}
ROUNDS = 5
# Of one size.
LIMIT_S = 70.0
WITHOUT = {
    "ours": "",
    "no poll": ", the GPU's stream waits for NCCL and not the CPU",
    "no loss": ", and the loss is not read",
    "no vote": ", and no vote is taken",
}


def in_turns(device: str, size: tuple[int, ...]) -> dict[str, Any]:
    """The worker's report. Raises TooLong."""
    words = map(str, (device, *size, ROUNDS))
    with Ours(1, "on_gpu.py", *words) as job:

        def reported() -> dict[str, Any] | None:
            report = next(lines(job.folder, "events-on-gpu-*.jsonl"), None)
            if report is None and job.processes[0].poll() is not None:
                raise TooLong("the job has ended without a report")
            return report

        try:
            return until(reported, LIMIT_S, "a report")
        except TooLong as error:
            output = (job.folder / "out-0.txt").read_text(errors="replace")
            raise TooLong(f"{error}: {output[-4000:]}") from error


def rows(name: str, seconds: dict[str, list[float]]) -> list[Row]:
    """Of a step of one size: ours, and ours without its waits."""
    bare = _in_ms(seconds["bare"])
    return [
        Row(
            name,
            f"{name} step{without}",
            "" if without else "≤ 1.02 × a bare loop",
            "ms",
            _in_ms(seconds[side]),
            "bare loop, loss read every 10 steps",
            bare,
            ratio_at_most=None if without else 1.02,
        )
        for side, without in WITHOUT.items()
    ]


def _in_ms(seconds: list[float]) -> list[float]:
    return [1000 * value for value in seconds]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.runtime.on_gpu")
    parser.add_argument("--device", choices=list(SIZES), default="cuda", help="cpu: to try it")
    parser.add_argument("-o", dest="output", choices=["table", "json"], default="table")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("this machine has no GPU: run it on one that has, or try it by --device cpu")
    # SIGTERM unwinds the stack, so that the processes we started end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    facts: dict[str, object] = {"python": platform.python_version(), "load": os.getloadavg()}
    measured: list[Row] = []
    failed = 0
    for name, size in SIZES[args.device].items():
        print(f"# {name}", file=sys.stderr, flush=True)
        try:
            report = in_turns(args.device, size)
        except TooLong as error:
            print(f"# {name}: {error}", file=sys.stderr)
            failed += 1
            continue
        measured += rows(name, report["seconds"])
        facts |= report["facts"] | {f"waits in a {name} step": report["waits"]}
    print(table.document(measured, facts) if args.output == "json" else table.as_text(measured))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
