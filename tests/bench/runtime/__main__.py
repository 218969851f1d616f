"""The benchmarks of elastic_runtime: prints the table and writes bench-runtime.json.

`python -m tests.bench.runtime [--only ROW] [--quick] [-o json]`
"""

import argparse
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

import torch

from tests.bench.runtime import exact, membership, peers, saves, sharded, steady, table, world
from tests.bench.runtime.table import Row

TREE = Path(__file__).parents[3]
Measure = Callable[[Collection[str], int], list[Row]]


def families(
    quick: bool, processes: int, torchrun_runs: int
) -> list[tuple[tuple[str, ...], Measure]]:
    """Row names and the function that measures them together."""
    return [
        (
            membership.NAMES,
            lambda wanted, runs: membership.measure(wanted, runs, torchrun_runs),
        ),
        (sharded.NAMES, sharded.measure),
        (steady.NAMES, lambda wanted, runs: steady.measure(wanted, runs, quick)),
        (saves.NAMES, lambda wanted, runs: saves.measure(wanted, runs, quick)),
        (exact.NAMES, exact.measure),
        (world.NAMES, lambda wanted, _: world.measure(wanted, quick, processes)),
    ]


def main() -> int:
    names = [name for family, _ in families(True, world.LARGEST, 0) for name in family]
    parser = argparse.ArgumentParser(prog="python -m tests.bench.runtime", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=names, help="measure this row only; may be repeated"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two runs (torchrun: one) of a smaller job, to try the benchmark; do not quote",
    )
    parser.add_argument("--runs", type=int, help="of each row (default: 5, with --quick 2)")
    parser.add_argument(
        "--torchrun-runs",
        type=int,
        help="of torchrun, which needs a minute for each event (default: 3, with --quick 1)",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=world.LARGEST,
        help="of the largest job in row world (default: %(default)s)",
    )
    parser.add_argument(
        "-o", dest="output", choices=["table", "json"], default="table", help="output format"
    )
    args = parser.parse_args()
    # SIGTERM unwinds the stack, so that the processes we started end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    width = 256 if args.quick else 1024
    # Every process of every job reads the width of its layers here.
    os.environ["BENCH_WIDTH"] = str(width)
    wanted = args.only or names
    runs = args.runs or (2 if args.quick else 5)
    torchrun_runs = 1 if args.quick else 3
    if args.torchrun_runs is not None:
        torchrun_runs = args.torchrun_runs
    began = time.time()
    load = os.getloadavg()
    rows: list[Row] = []
    facts: dict[str, object] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "runs": runs,
        "layer_width": width,
        "peers": {module: peers.version(module) for module in peers.PINNED},
        "load_before": load,
        "only": args.only or "all",
    }
    for family, measure in families(args.quick, args.processes, torchrun_runs):
        if selected := [name for name in family if name in wanted]:
            rows += measure(selected, runs)
            document = table.document(
                rows, facts | {"load_after": os.getloadavg(), "seconds": round(time.time() - began)}
            )
            # Write the rows measured so far: the rest may take half an hour.
            (TREE / "bench-runtime.json").write_text(document)
    print(document if args.output == "json" else table.as_text(rows))
    return 0 if all(row.met is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
