"""Tried with a stand-in for the `datasets` package; tests/frameworks has the real one."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from elastic_runtime.data import samples_digest
from elastic_runtime.data.samples_digest import SAMPLES

Rows = list[dict[str, Any]]
LIBRARY = "datasets.arrow_dataset"


def _only(row: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in columns}


@dataclass
class Table:
    rows: Rows
    types: dict[str, str]

    @property
    def schema(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name, type=kind) for name, kind in self.types.items()]

    def select(self, columns: Sequence[str]) -> "Table":
        return Table([_only(row, columns) for row in self.rows], self.types)

    def to_pylist(self) -> Rows:
        return self.rows


@dataclass
class Dataset:
    """In arrow's format it returns what it stores, else what a transform makes of it."""

    rows: Rows
    types: dict[str, str] = field(default_factory=lambda: {"n": "int64"})

    def __len__(self) -> int:
        return len(self.rows)

    def with_format(self, name: str) -> "Dataset":
        assert name == "arrow"
        return self

    def __getitem__(self, places: list[int]) -> Table:
        return Table([self.rows[place] for place in places], self.types)


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, LIBRARY, SimpleNamespace(Dataset=Dataset))


def numbered(numbers: Sequence[int]) -> Dataset:
    return Dataset([{"n": number} for number in numbers])


ORDERED = range(50)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(numbered(ORDERED[::-1]), id="another order"),
        pytest.param(numbered(ORDERED[:-1]), id="another length"),
        pytest.param(numbered([*ORDERED[:25], *range(125, 150)]), id="another half"),
        pytest.param(Dataset([{"m": n} for n in ORDERED], {"m": "int64"}), id="another column"),
    ],
)
def test_other_samples_have_another_digest(other: Dataset) -> None:
    own = samples_digest.compute(numbered(ORDERED))
    assert 0 < own < 1 << 63
    assert samples_digest.compute(numbered(ORDERED)) == own
    assert samples_digest.compute(other) not in (0, own)


def test_a_dataset_of_fewer_samples_has_one() -> None:
    assert samples_digest.compute(numbered(range(SAMPLES - 1)))
    assert samples_digest.compute(numbered([7]))


def test_paths_of_files_do_not_count() -> None:
    types = {"image": "struct<bytes: binary, path: string>", "n": "int64"}
    first, second = (
        Dataset([{"image": {"bytes": None, "path": f"{home}/a.png"}, "n": 1}], types)
        for home in ("/a", "/b")
    )
    assert samples_digest.compute(first) == samples_digest.compute(second)


def test_others_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert samples_digest.compute([1, 2]) == 0
    monkeypatch.delitem(sys.modules, LIBRARY)
    assert samples_digest.compute(numbered(ORDERED)) == 0


@pytest.mark.parametrize("own", [SimpleNamespace(), SimpleNamespace(Dataset=list)])
def test_a_script_may_have_a_module_of_its_own_called_datasets(
    monkeypatch: pytest.MonkeyPatch, own: SimpleNamespace
) -> None:
    monkeypatch.delitem(sys.modules, LIBRARY)
    monkeypatch.setitem(sys.modules, "datasets", own)
    assert samples_digest.compute([1, 2]) == 0
