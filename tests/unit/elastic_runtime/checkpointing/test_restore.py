"""Checkpoints are found, verified and loaded without a job."""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from elastic_runtime.__main__ import verify
from elastic_runtime.checkpointing import direct_io, restore
from elastic_runtime.checkpointing.save_format import VERSION
from elastic_runtime.mistake import Mistake
from tests.builders.damage import (
    DAMAGES,
    PART,
    change_version,
    delete_the_manifest,
    flip_a_bit,
)
from tests.builders.saves import save, save_on_all_ranks, savers, small_state


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    checkpoint = save(tmp_path, 7, small_state(7))
    assert restore.newest_intact(tmp_path) == checkpoint
    loaded = restore.load(checkpoint)
    assert torch.equal(loaded["model"]["w"], small_state(7)["model"]["w"])
    assert (loaded["step"], loaded["also"]) == (7, [(1, 2.5, "x", None)])


def test_the_newest_step_is_known_without_reading_a_tensor(tmp_path: Path) -> None:
    save(tmp_path, 1, small_state(1))
    checkpoint = save(tmp_path, 2, small_state(2))
    (checkpoint.path / PART).unlink()
    assert restore.newest(tmp_path) == checkpoint
    delete_the_manifest(checkpoint.path)
    older = restore.newest(tmp_path)
    assert older
    assert older.step == 1
    assert restore.newest(tmp_path / "missing") is None


def test_the_rest_of_a_state_is_loaded_without_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one of the files is read."""
    save_on_all_ranks(savers(tmp_path, world=3), 3)
    checkpoint = restore.newest(tmp_path)
    assert checkpoint
    read = direct_io.read
    files: list[str] = []

    def recording(path: Path, targets: Any) -> str:
        files.append(path.name)
        return read(path, targets)

    monkeypatch.setattr(direct_io, "read", recording)
    assert restore.load_extra(checkpoint) == {"step": 3, "also": []}
    assert files == [PART]
    flip_a_bit(checkpoint.path)
    with pytest.raises(ValueError, match="is not what was written"):
        restore.load_extra(checkpoint)


def test_no_directory_and_no_checkpoint_are_no_error(tmp_path: Path) -> None:
    assert restore.newest_intact(tmp_path / "missing") is None
    assert restore.newest_intact(tmp_path) is None


# --- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_skipped_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None]
) -> None:
    old = save(tmp_path, 1, small_state(1))
    damage(save(tmp_path, 2, small_state(2)).path)
    with caplog.at_level(logging.WARNING):
        assert restore.newest_intact(tmp_path) == old
    assert any("step-000000002" in str(record.__dict__) for record in caplog.records)


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
            return print, ("run",)

    checkpoint = save(tmp_path, 1, {"step": 1, "model": Evil()})
    with pytest.raises(Exception, match="Weights only load failed"):
        restore.load(checkpoint)


# --- another version ------------------------------------------------------------------------------


def test_a_checkpoint_of_another_version_is_skipped_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = save(tmp_path, 1, small_state(1))
    change_version(save(tmp_path, 2, small_state(2)).path)
    assert restore.newest_intact(tmp_path) == old
    message = f"has format version {VERSION + 1}, this elastic_runtime reads version {VERSION}"
    assert any(message in str(record.__dict__) for record in caplog.records)


# --- python -m elastic_runtime verify -------------------------------------------------------------


def test_verify_prints_the_newest_intact_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(tmp_path, as_json=False) == 1
    checkpoint = save(tmp_path, 3, small_state(3))
    part = save(tmp_path, 4, small_state(4)).path / PART
    os.truncate(part, part.stat().st_size - 1)
    assert verify(tmp_path, as_json=True) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["durableStep"], printed["digest"]) == (3, checkpoint.digest)
    assert verify(tmp_path, as_json=False) == 0
    assert f"is intact: step 3, digest {checkpoint.digest}\n" in capsys.readouterr().out


def test_a_directory_may_be_a_text_as_for_a_session(tmp_path: Path) -> None:
    checkpoint = save(tmp_path, 1, small_state(1))
    directory = str(tmp_path)
    assert restore.newest(directory) == restore.newest_intact(directory) == checkpoint
    assert restore.best(directory) is None


@pytest.mark.parametrize("name", ["load", "load_extra"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param(None, "None, which .* best return if there is no", id="none"),
        pytest.param("save", r"give it .*, restore.newest_intact\('save'\)$", id="a text"),
        pytest.param(Path("save"), r"give it .*, restore.newest_intact\('save'\)$", id="a path"),
    ],
)
def test_what_is_no_checkpoint_is_not_loaded(name: str, given: Any, message: str) -> None:
    with pytest.raises(Mistake, match=f"^restore.{name} was given .*{message}"):
        getattr(restore, name)(given)
