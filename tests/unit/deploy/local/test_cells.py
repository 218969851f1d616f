"""The cells of `make matrix`: their modules, what was tried, and what Cede calls tested."""

from dataclasses import replace

import pytest

from cede.api.support import TESTED_KUBERNETES, TESTED_KUEUE, text_of
from deploy.local import binaries
from deploy.local.__main__ import main
from deploy.local.cells import CELLS, DEFAULT, DEFAULT_NAME, Cell
from deploy.local.cluster import fingerprint
from tests.matrix.table import (
    Result,
    chosen_tests,
    digest_of,
    read_results,
    row_of,
    versions,
)

PLAIN = {name: cell for name, cell in CELLS.items() if not cell.gates and not cell.kueue_gates}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_has_the_minor_version_that_its_name_begins_with(name: str) -> None:
    kubernetes, _ = versions(CELLS[name])
    assert kubernetes.startswith(f"v{name.partition('-')[0]}.")


@pytest.mark.parametrize("name", [name for name, cell in CELLS.items() if cell.modules])
def test_the_programs_of_another_version_are_those_of_kubernetes(name: str) -> None:
    programs = set(binaries.cell_programs(CELLS[name]))
    assert programs <= {package for package, _ in binaries.PROGRAMS}
    assert f"{binaries.KUBERNETES}/cmd/kube-apiserver" in programs


def test_what_cede_calls_tested_is_what_has_passed() -> None:
    """And the version of the local cluster, which all tests use."""
    passed = {name for name, result in read_results().items() if not result.failed}
    tested = {text_of(version) for version in TESTED_KUBERNETES}
    assert tested == (passed & PLAIN.keys()) | {DEFAULT_NAME}


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_has_the_kueue_that_cede_calls_tested(name: str) -> None:
    _, kueue = versions(CELLS[name])
    assert kueue.startswith(f"v{text_of(TESTED_KUEUE)}.")


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_that_was_tried_was_so_with_its_present_versions(name: str) -> None:
    if result := read_results().get(name):
        assert (result.kubernetes, result.kueue) == versions(CELLS[name]), "run `make matrix`"


def test_the_table_says_which_cells_were_tried_with_other_tests_than_those_of_today() -> None:
    old = Result("v1.37.2", "v0.19.2", 29)
    assert "| works (with the tests of an earlier version) |" in row_of(CELLS["1.37"], old)
    today = replace(old, tests=digest_of(chosen_tests(CELLS["1.37"])))
    assert "| works |" in row_of(CELLS["1.37"], today)


def test_another_test_is_another_list_of_tests() -> None:
    facts, *others = chosen_tests(DEFAULT)
    assert digest_of([facts]) != digest_of([facts, *others])
    assert digest_of([f"{facts}::test_a"]) != digest_of([f"{facts}::test_b"])


def test_another_cell_needs_another_cluster() -> None:
    prints = {fingerprint(cell) for cell in CELLS.values() if not cell.kueue_gates}
    assert len(prints) == len(CELLS) - 1
    assert fingerprint(DEFAULT) == fingerprint(Cell(kueue_gates=("A",))), "Kueue is restarted"


def test_a_cell_that_does_not_exist_is_refused_with_the_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CEDE_CELL", "1.12")
    assert main(["status"]) == 1
    assert "CEDE_CELL is 1.12: use one of 1.35, 1.36, 1.37" in capsys.readouterr().err
