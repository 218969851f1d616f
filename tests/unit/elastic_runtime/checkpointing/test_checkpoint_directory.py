"""From a draft to a checkpoint: only if complete, and never instead of one that is intact."""

import errno
import os
from pathlib import Path

import pytest

from elastic_runtime.checkpointing import checkpoint_directory, part_file, restore
from elastic_runtime.checkpointing.hashed_writer import BackgroundWorker
from elastic_runtime.checkpointing.save_format import part_name
from tests.builders.saves import save, small_state, steps_in


def write_empty_part(draft: Path) -> None:
    part_file.write_part(draft, 0, [], {}, BackgroundWorker(), lambda: False)


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    for step in (5, 20, 10, 100):
        save(tmp_path, step, small_state(step))
    assert steps_in(tmp_path) == [20, 100]


def test_a_checkpoint_of_an_earlier_step_is_never_removed(tmp_path: Path) -> None:
    """The later ones may be torn: the job has started again before them."""
    for step in (50, 60):
        part = save(tmp_path, step, small_state(step)).path / part_name(0)
        os.truncate(part, 100)
    earlier = [save(tmp_path, step, small_state(step)) for step in (5, 10, 15)]
    assert steps_in(tmp_path) == [10, 15, 50, 60]
    assert restore.newest_intact(tmp_path) == earlier[-1]


def test_a_step_saved_again_replaces_itself(tmp_path: Path) -> None:
    save(tmp_path, 5, small_state(5, 10))
    save(tmp_path, 5, small_state(5, 20))
    newest = restore.newest_intact(tmp_path)
    assert newest
    assert len(restore.load(newest)["model"]["w"]) == 20


def test_a_writer_that_died_half_way_leaves_no_checkpoint(tmp_path: Path) -> None:
    old = save(tmp_path, 1, small_state(1))
    draft = tmp_path / ".step-000000002.123"
    draft.mkdir()
    (draft / part_name(0)).write_bytes(b"half")
    assert restore.newest_intact(tmp_path) == old


def test_a_draft_that_a_new_leading_rank_removed_is_never_published(tmp_path: Path) -> None:
    draft = tmp_path / ".step-000000002.1-5000"
    write_empty_part(draft)
    checkpoint_directory.remove_drafts(tmp_path, keep=tmp_path / ".step-000000003.2-5001")
    with pytest.raises(FileNotFoundError):
        checkpoint_directory.publish(tmp_path, draft, 2, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_replaced_checkpoint_is_back_if_its_successor_was_not_published(tmp_path: Path) -> None:
    """Its writer died in between."""
    old = save(tmp_path, 2, small_state(2))
    old.path.rename(tmp_path / f".{old.path.name}.before")
    save(tmp_path, 3, small_state(3))
    assert steps_in(tmp_path) == [2, 3]


def test_a_draft_without_the_report_of_a_part_is_not_published(tmp_path: Path) -> None:
    draft = tmp_path / ".step-000000002.1-5000"
    write_empty_part(draft)
    with pytest.raises(FileNotFoundError):
        checkpoint_directory.publish(tmp_path, draft, 2, 2)
    assert steps_in(tmp_path) == []


def test_a_checkpoint_of_the_same_step_stays_until_the_new_one_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = save(tmp_path, 2, small_state(2))
    rename = os.rename

    def failing_rename(source: Path, target: Path) -> None:
        if ".before" not in source.name and target == old.path:
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing_rename)
    with pytest.raises(OSError, match="Input/output error"):
        save(tmp_path, 2, small_state(2))
    assert restore.newest_intact(tmp_path) == old


def test_a_missing_directory_has_no_checkpoints(tmp_path: Path) -> None:
    assert list(checkpoint_directory.checkpoints(tmp_path / "missing")) == []
