"""A checkpoint is loaded only if every byte is as it was written."""

import errno
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
from elastic_runtime.checkpointing.save_format import MANIFEST, VERSION, part_name
from elastic_runtime.checkpointing.saver import Saver
from tests.builders.saves import ignore_report, save, small_state, steps_in

PART = part_name(0)


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    checkpoint = save(tmp_path, 7, small_state(7))
    assert restore.newest_intact(tmp_path) == checkpoint
    loaded = restore.load(checkpoint)
    assert torch.equal(loaded["model"]["w"], small_state(7)["model"]["w"])
    assert (loaded["step"], loaded["also"]) == (7, [(1, 2.5, "x", None)])


def test_no_directory_and_no_checkpoint_are_no_error(tmp_path: Path) -> None:
    assert restore.newest_intact(tmp_path / "missing") is None
    assert restore.newest_intact(tmp_path) is None


# --- damage ---------------------------------------------------------------------------------------


def truncate(checkpoint: Path) -> None:
    os.truncate(checkpoint / PART, 100)


def flip_a_bit(checkpoint: Path) -> None:
    content = bytearray((checkpoint / PART).read_bytes())
    content[len(content) // 2] ^= 1
    (checkpoint / PART).write_bytes(content)


def delete_the_part(checkpoint: Path) -> None:
    (checkpoint / PART).unlink()


def delete_the_manifest(checkpoint: Path) -> None:
    (checkpoint / MANIFEST).unlink()


def tear_the_manifest(checkpoint: Path) -> None:
    (checkpoint / MANIFEST).write_bytes((checkpoint / MANIFEST).read_bytes()[:20])


def empty_the_manifest(checkpoint: Path) -> None:
    (checkpoint / MANIFEST).write_text(json.dumps({"step": 2, "files": {}}))


def write_another_manifest(checkpoint: Path) -> None:
    (checkpoint / MANIFEST).write_text(json.dumps([{"step": 2, "files": []}]))


def change_a_digit(checkpoint: Path) -> None:
    """Of the offset of the first piece: what is there instead has the right size."""
    manifest = json.loads((checkpoint / MANIFEST).read_text())
    manifest["pieces"][0]["begin"] += 64
    (checkpoint / MANIFEST).write_text(json.dumps(manifest))


DAMAGES = [
    truncate,
    flip_a_bit,
    delete_the_part,
    delete_the_manifest,
    tear_the_manifest,
    empty_the_manifest,
    write_another_manifest,
    change_a_digit,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_checkpoint_before_a_damaged_one_is_loaded(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Into the live tensors. The damaged one is set aside, so it is not the newest any more."""
    # Large enough to be read into place.
    numbers = 30_000
    live = {"model.w": torch.zeros(numbers)}
    old = save(tmp_path, 1, small_state(1, numbers))
    newer_state = {**small_state(2, numbers), "model": {"w": torch.ones(numbers)}}
    damage(save(tmp_path, 2, newer_state).path)
    # A copy that somebody has made.
    (tmp_path / "step-000000001.bak").mkdir()
    loaded = restore.load_newest(tmp_path, live)
    assert loaded
    checkpoint, state = loaded
    assert checkpoint == old
    # No new memory.
    assert state["model"]["w"] is live["model.w"]
    assert torch.equal(live["model.w"], small_state(1, numbers)["model"]["w"])
    assert Saver(tmp_path, 0, ignore_report).newest_step() == 1
    # For people to look at.
    assert (tmp_path / "damaged-step-000000002").is_dir()


def test_a_job_does_not_start_over_if_all_checkpoints_are_damaged(tmp_path: Path) -> None:
    for step in (1, 2):
        flip_a_bit(save(tmp_path, step, small_state(step)).path)
    with pytest.raises(LookupError, match=r"all 2 checkpoints in .* are damaged"):
        restore.load_newest(tmp_path, {})
    assert steps_in(tmp_path) == [1, 2]


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


def change_version(checkpoint: Path) -> None:
    manifest = json.loads((checkpoint / MANIFEST).read_text())
    (checkpoint / MANIFEST).write_text(json.dumps(manifest | {"version": VERSION + 1}))


def test_a_checkpoint_of_another_version_is_skipped_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = save(tmp_path, 1, small_state(1))
    change_version(save(tmp_path, 2, small_state(2)).path)
    assert restore.newest_intact(tmp_path) == old
    message = f"has format version {VERSION + 1}, this elastic_runtime reads version {VERSION}"
    assert any(message in str(record.__dict__) for record in caplog.records)


def test_a_newest_checkpoint_of_another_version_stops_the_job(tmp_path: Path) -> None:
    """It is neither skipped nor set aside: it may be intact."""
    save(tmp_path, 1, small_state(1))
    change_version(save(tmp_path, 2, small_state(2)).path)
    with pytest.raises(
        LookupError, match=r"has format version .* use the image that wrote it, or move it away"
    ):
        restore.load_newest(tmp_path, {})
    assert steps_in(tmp_path) == [1, 2]


# --- storage that fails ---------------------------------------------------------------------------


def fail_next_reads(monkeypatch: pytest.MonkeyPatch, *error_numbers: int) -> None:
    """The next reads of a file raise these errors, one after the other."""
    read = direct_io.read
    errors = iter(error_numbers)

    def failing_read(*arguments: Any) -> str:
        for number in errors:
            raise OSError(number, os.strerror(number))
        return read(*arguments)

    monkeypatch.setattr(direct_io, "read", failing_read)
    monkeypatch.setattr(restore, "RETRY_DELAY_S", 0.0)


def test_a_file_server_that_is_away_for_a_moment_costs_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1, small_state(1))
    newest = save(tmp_path, 2, small_state(2))
    fail_next_reads(monkeypatch, errno.ESTALE)
    loaded = restore.load_newest(tmp_path, {})
    assert loaded
    assert loaded[0] == newest
    assert steps_in(tmp_path) == [1, 2]


def test_a_file_server_that_stays_away_costs_no_checkpoint_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job ends with a message instead of going back to the one before."""
    for step in (1, 2):
        save(tmp_path, step, small_state(step))
    fail_next_reads(monkeypatch, errno.ESTALE, errno.ESTALE)
    with pytest.raises(
        LookupError,
        match=(
            r"step-000000002 cannot be read: .*Stale file handle; fix the storage, or move this "
            r"checkpoint away to resume from the previous one"
        ),
    ):
        restore.load_newest(tmp_path, {})
    assert steps_in(tmp_path) == [1, 2]


def test_if_the_medium_of_the_newest_has_failed_the_one_before_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = save(tmp_path, 1, small_state(1))
    save(tmp_path, 2, small_state(2))
    fail_next_reads(monkeypatch, errno.EIO, errno.EIO)
    loaded = restore.load_newest(tmp_path, {})
    assert loaded
    assert loaded[0] == old
    assert steps_in(tmp_path) == [1]


def test_a_directory_that_cannot_be_listed_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing_listdir(_: Path) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "listdir", refusing_listdir)
    with pytest.raises(PermissionError):
        restore.load_newest(tmp_path, {})


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
