"""The mark of the best checkpoint is replaced as a whole, and names only what is there."""

import errno
import math
import os
from pathlib import Path
from typing import NoReturn

import pytest

from elastic_runtime.checkpointing import best_mark
from elastic_runtime.checkpointing.best_mark import BestMark
from tests.builders.saves import save, small_state


@pytest.mark.parametrize(
    ("value", "other", "lower", "is_better"),
    [
        pytest.param(1.0, None, True, True, id="there is no other"),
        pytest.param(1.0, 2.0, True, True, id="lower"),
        pytest.param(2.0, 1.0, True, False, id="higher"),
        pytest.param(1.0, 1.0, True, False, id="equal"),
        pytest.param(2.0, 1.0, False, True, id="higher, where that is better"),
        pytest.param(math.nan, None, True, False, id="NaN"),
        pytest.param(1.0, math.inf, True, True, id="the other is infinite"),
    ],
)
def test_better(value: float, other: float | None, lower: bool, is_better: bool) -> None:
    before = None if other is None else BestMark(1, other, lower)
    assert BestMark(2, value, lower).is_better_than(before) == is_better


def test_a_value_of_another_meaning_is_not_compared() -> None:
    assert BestMark(2, 5.0, lower_is_better=False).is_better_than(BestMark(1, 9.0))


def test_a_mark_is_read_as_it_was_written(tmp_path: Path) -> None:
    save(tmp_path, 3, small_state(3))
    mark = BestMark(3, 0.1, lower_is_better=False)
    best_mark.write(tmp_path, mark)
    assert best_mark.read(tmp_path) == mark


def test_a_mark_without_its_checkpoint_counts_as_none(tmp_path: Path) -> None:
    best_mark.write(tmp_path, BestMark(3, 0.1))
    assert best_mark.read(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"[]", b'{"step": 3}', b'{"step": null}', b"\xff"])
def test_a_damaged_mark_counts_as_none(tmp_path: Path, content: bytes) -> None:
    save(tmp_path, 3, small_state(3))
    (tmp_path / best_mark.MARK).write_bytes(content)
    assert best_mark.read(tmp_path) is None


def test_a_full_disk_leaves_the_mark_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (3, 4):
        save(tmp_path, step, small_state(step))
    best_mark.write(tmp_path, BestMark(3, 0.1))
    names = sorted(os.listdir(tmp_path))

    def full(_: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        best_mark.write(tmp_path, BestMark(4, 0.05))
    assert best_mark.read(tmp_path) == BestMark(3, 0.1)
    assert sorted(os.listdir(tmp_path)) == names


def test_only_the_mark_of_that_step_is_removed(tmp_path: Path) -> None:
    save(tmp_path, 3, small_state(3))
    best_mark.write(tmp_path, BestMark(3, 0.1))
    best_mark.remove(tmp_path, 4)
    assert best_mark.read(tmp_path)
    best_mark.remove(tmp_path, 3)
    assert not (tmp_path / best_mark.MARK).exists()
