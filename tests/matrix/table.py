"""The results of `make matrix`, and the table of them in docs/install.md."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from deploy.local import binaries
from deploy.local.cells import CELLS, DEFAULT, Cell

RESULTS = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Result:
    """Of one cell, with the versions that it was tried with."""

    kubernetes: str
    kueue: str
    passed: int
    # tests, or what kept the cluster from starting
    failed: tuple[str, ...] = ()


def versions(cell: Cell) -> tuple[str, str]:
    """Of Kubernetes and Kueue."""
    kubernetes = binaries.version(binaries.KUBERNETES, cell.modules)
    return kubernetes, binaries.version("sigs.k8s.io/kueue")


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
    rows = [_row(cell, results.get(name)) for name, cell in CELLS.items()]
    header = "| Kubernetes | Kueue | feature gates, beside the defaults | Cede |"
    return "\n".join([header, "|---|---|---|---|", *rows])


def _row(cell: Cell, result: Result | None) -> str:
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
    columns = (kubernetes.removeprefix("v"), kueue.removeprefix("v"), gates, outcome)
    return f"| {' | '.join(columns)} |"
