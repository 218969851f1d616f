"""`make matrix`: tries Cede with other versions and feature gates of Kubernetes and Kueue.

Each cell of deploy/local/cells.py is a local cluster of its own. A cell that fails does not keep
the others from being tried. The exit code is 1 then. Arguments: the names of cells, all without.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence

from deploy.local.cells import CELLS
from tests.matrix.table import (
    Result,
    chosen_tests,
    digest_of,
    matrix_table,
    read_results,
    versions,
    write_results,
)
from tests.paths import TREE

OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)


def main(argv: Sequence[str]) -> int:
    if unknown := set(argv) - CELLS.keys():
        print(f"{', '.join(sorted(unknown))} is no cell: use {', '.join(CELLS)}", file=sys.stderr)
        return 2
    results = read_results()
    chosen = [name for name in CELLS if name in argv or not argv]
    for name in chosen:
        started = time.monotonic()
        results[name] = try_cell(name)
        write_results(results)
        failed = "".join(f"\n  {test}" for test in results[name].failed)
        seconds = time.monotonic() - started
        print(f"{name}: {results[name].passed} passed in {seconds:.0f} s{failed}", flush=True)
    run("-m", "deploy.local", "down", cell=chosen[-1])
    print(matrix_table())
    return 1 if any(results[name].failed for name in chosen) else 0


def try_cell(name: str) -> Result:
    """Its cluster runs the tests."""
    cell = CELLS[name]
    kubernetes, kueue = versions(cell)
    started = run("-m", "deploy.local", "up", cell=name)
    if started.returncode:
        return Result(kubernetes, kueue, 0, (started.stderr.strip().splitlines()[-1],))
    tests = chosen_tests(cell)
    done = run("-m", "pytest", "-q", "-rpfE", "--tb=short", *tests, cell=name)
    outcomes = OUTCOME.findall(done.stdout)
    passed = sum(outcome == "PASSED" for outcome, _ in outcomes)
    failed = tuple(test for outcome, test in outcomes if outcome != "PASSED")
    if failed or done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
    if done.returncode and not failed:
        failed = (f"pytest ended with exit code {done.returncode}",)
    return Result(kubernetes, kueue, passed, failed, digest_of(tests))


def run(*argv: str, cell: str) -> subprocess.CompletedProcess[str]:
    # with CI=true, a test of the cluster that cannot run fails
    env = {**os.environ, "CEDE_CELL": cell, "CEDE_KINDS": "1", "CI": "true"}
    command = [sys.executable, *argv]
    return subprocess.run(command, cwd=TREE, env=env, text=True, capture_output=True, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
