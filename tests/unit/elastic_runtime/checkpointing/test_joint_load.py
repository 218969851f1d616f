"""All ranks load the newest checkpoint together, only if every byte is as it was written."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from elastic_runtime.checkpointing import direct_io, joint_load
from elastic_runtime.checkpointing.saver import Saver
from elastic_runtime.state.destination import WholeTensors
from tests.builders.damage import DAMAGES, change_version, flip_a_bit
from tests.builders.saves import ignore_report, save, small_state, steps_in

# --- one rank -------------------------------------------------------------------------------------


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
    loaded = joint_load.load_newest(tmp_path, WholeTensors(live))
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
        joint_load.load_newest(tmp_path, WholeTensors())
    assert steps_in(tmp_path) == [1, 2]


def test_a_newest_checkpoint_of_another_version_stops_the_job(tmp_path: Path) -> None:
    """It is neither skipped nor set aside: it may be intact."""
    save(tmp_path, 1, small_state(1))
    change_version(save(tmp_path, 2, small_state(2)).path)
    with pytest.raises(
        LookupError, match=r"has format version .* use the image that wrote it, or move it away"
    ):
        joint_load.load_newest(tmp_path, WholeTensors())
    assert steps_in(tmp_path) == [1, 2]


# --- storage that fails ---------------------------------------------------------------------------


def fail_next_reads(monkeypatch: pytest.MonkeyPatch, *error_numbers: int) -> None:
    """The next reads of a file raise these errors, one after the other."""
    read = direct_io.read_blocks
    errors = iter(error_numbers)

    def failing_read(*arguments: Any) -> dict[int, bytes]:
        for number in errors:
            raise OSError(number, os.strerror(number))
        return read(*arguments)

    monkeypatch.setattr(direct_io, "read_blocks", failing_read)
    monkeypatch.setattr(joint_load, "RETRY_DELAY_S", 0.0)


def test_a_file_server_that_is_away_for_a_moment_costs_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1, small_state(1))
    newest = save(tmp_path, 2, small_state(2))
    fail_next_reads(monkeypatch, errno.ESTALE)
    loaded = joint_load.load_newest(tmp_path, WholeTensors())
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
        joint_load.load_newest(tmp_path, WholeTensors())
    assert steps_in(tmp_path) == [1, 2]


def test_if_the_medium_of_the_newest_has_failed_the_one_before_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = save(tmp_path, 1, small_state(1))
    save(tmp_path, 2, small_state(2))
    fail_next_reads(monkeypatch, errno.EIO, errno.EIO)
    loaded = joint_load.load_newest(tmp_path, WholeTensors())
    assert loaded
    assert loaded[0] == old
    assert steps_in(tmp_path) == [1]


def test_a_directory_that_cannot_be_listed_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing_listdir(_: Path) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "listdir", refusing_listdir)
    with pytest.raises(LookupError, match=r"cannot be listed: .*Permission denied"):
        joint_load.load_newest(tmp_path, WholeTensors())
