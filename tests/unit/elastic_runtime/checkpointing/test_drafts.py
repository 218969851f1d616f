"""From a draft to a save: only whole, under its own name, and never in the place of one that is."""

import errno
import os
from pathlib import Path

import pytest

from elastic_runtime.checkpointing import restore, save_format
from elastic_runtime.checkpointing.direct_io import Desk
from tests.builders.saves import save
from tests.unit.elastic_runtime.checkpointing.test_save_format import STATE, state, steps


def test_a_step_saved_again_replaces_itself(tmp_path: Path) -> None:
    save(tmp_path, 5, state(5, 10))
    save(tmp_path, 5, state(5, 20))
    found = restore.newest(tmp_path)
    assert found
    assert len(restore.load(found)["model"]["w"]) == 20


def test_a_writer_that_died_half_way_leaves_no_save(tmp_path: Path) -> None:
    old = save(tmp_path, 1, state(1))
    draft = tmp_path / ".step-000000002.123"
    draft.mkdir()
    (draft / STATE).write_bytes(b"half")
    assert restore.newest(tmp_path) == old


def test_a_draft_that_a_new_leading_rank_has_removed_is_never_a_save(tmp_path: Path) -> None:
    draft = tmp_path / ".step-000000002.1-5000"
    save_format.write_part(draft, 0, [], {}, Desk(), lambda: False)
    save_format.remove_drafts(tmp_path, tmp_path / ".step-000000003.2-5001")
    with pytest.raises(FileNotFoundError):
        save_format.conclude(tmp_path, draft, 2, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_save_whose_writer_died_before_its_successor_had_its_name_is_there_again(
    tmp_path: Path,
) -> None:
    old = save(tmp_path, 2, state(2))
    old.path.rename(tmp_path / f".{old.path.name}.before")
    save(tmp_path, 3, state(3))
    assert steps(tmp_path) == [2, 3]


def test_a_part_that_is_not_listed_makes_no_save(tmp_path: Path) -> None:
    draft = tmp_path / ".step-000000002.1-5000"
    save_format.write_part(draft, 0, [], {}, Desk(), lambda: False)
    with pytest.raises(FileNotFoundError):
        save_format.conclude(tmp_path, draft, 2, 2)
    assert steps(tmp_path) == []


def test_a_save_of_the_same_step_stays_until_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = save(tmp_path, 2, state(2))
    rename = os.rename

    def fails(source: Path, target: Path) -> None:
        if ".before" not in source.name and target == old.path:
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises(OSError, match="Input/output error"):
        save(tmp_path, 2, state(2))
    assert restore.newest(tmp_path) == old
