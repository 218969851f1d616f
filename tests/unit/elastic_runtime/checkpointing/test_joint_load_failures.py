"""A checkpoint that cannot be read now is not a damaged one."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.checkpointing import direct_io, joint_load
from elastic_runtime.state.destination import WholeTensors
from tests.builders.saves import save, small_state, steps_in


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
