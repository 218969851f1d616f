"""What `make matrix` tries, its results, and the table of them in docs/install.md."""

import ast
import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from deploy.local import binaries
from deploy.local.cells import CELLS, DEFAULT, Cell
from tests.paths import TREE

FACTS = "tests/matrix/test_versions.py"
TESTS = (
    FACTS,
    "tests/matrix/test_lever.py",
    "tests/integration/test_webhook.py",
    "tests/integration/test_accelerators_policy.py",
    "tests/integration/test_reservation.py",
    "tests/e2e/test_cession.py::test_the_preemptor_runs_and_the_target_trains_on",
    "tests/e2e/test_growth.py",
)
"""What must hold in every cell: the facts that a take-back rests on, the webhook and the admission
policies, what is released reaches its preemptor, one take-back and one growth of real jobs."""
RESULTS = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Result:
    """Of one cell, with the versions that it was tried with."""

    kubernetes: str
    kueue: str
    passed: int
    # tests, or what kept the cluster from starting
    failed: tuple[str, ...] = ()
    # the digest of the list of tests; empty if the cluster did not start
    tests: str = ""


def versions(cell: Cell) -> tuple[str, str]:
    """Of Kubernetes and Kueue."""
    kubernetes = binaries.version(binaries.KUBERNETES, cell.modules)
    return kubernetes, binaries.version("sigs.k8s.io/kueue")


def chosen_tests(cell: Cell) -> tuple[str, ...]:
    """The files and tests that are run in this cell."""
    return (FACTS,) if cell.unsupported else TESTS


def digest_of(tests: Iterable[str]) -> str:
    """Another one when a test is added, removed or renamed."""
    names = [name for test in tests for name in _names_in(test)]
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def _names_in(test: str) -> list[str]:
    """Of a test its name, of a file those of all its tests."""
    if "::" in test:
        return [test]
    functions = [
        node.name
        for node in ast.parse((TREE / test).read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [f"{test}::{name}" for name in functions if name.startswith("test_")]


def read_results() -> dict[str, Result]:
    """By the cell's name; only those that were tried."""
    entries = json.loads(RESULTS.read_text())
    return {
        name: Result(**{**entry, "failed": tuple(entry["failed"])})
        for name, entry in entries.items()
    }


def write_results(results: dict[str, Result]) -> None:
    known = {name: asdict(results[name]) for name in CELLS if name in results}
    RESULTS.write_text(json.dumps(known, indent=1) + "\n")


def matrix_table() -> str:
    """One row for each cell."""
    results = read_results()
    rows = [row_of(cell, results.get(name)) for name, cell in CELLS.items()]
    header = "| Kubernetes | Kueue | feature gates, beside the defaults | Cede |"
    return "\n".join([header, "|---|---|---|---|", *rows])


def row_of(cell: Cell, result: Result | None) -> str:
    kubernetes, kueue = (result.kubernetes, result.kueue) if result else versions(cell)
    gates = ", ".join(f"`{gate}`" for gate in (*cell.gates, *cell.kueue_gates))
    outcome = "works"
    if result and result.failed:
        outcome = f"{len(result.failed)} of {result.passed + len(result.failed)} tests fail"
    elif cell.unsupported:
        outcome = f"not supported: {cell.unsupported}"
    elif cell == DEFAULT:
        outcome = "works; all tests use it"
    elif result is None:
        outcome = "not tried yet"
    if result and result.tests != digest_of(chosen_tests(cell)):
        outcome += " (with the tests of an earlier version)"
    columns = (kubernetes.removeprefix("v"), kueue.removeprefix("v"), gates, outcome)
    return f"| {' | '.join(columns)} |"
