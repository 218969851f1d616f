"""A checkpoint that cannot be read now, or not by one rank, is not a damaged one."""

import errno
import os
import platform
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.checkpointing import direct_io, joint_load, load_failures
from elastic_runtime.checkpointing.save_format import MANIFEST, METADATA
from elastic_runtime.distributed.group import Group
from elastic_runtime.state.destination import WholeTensors
from tests.builders.saves import save, save_on_all_ranks, savers, small_state, steps_in
from tests.harness.thread_ranks import run_ranks

# The file of the second of two ranks that wrote a checkpoint.
SECOND_FILE = "__1_0.distcp"


@pytest.fixture(autouse=True)
def _no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_failures, "RETRY_DELAY_S", 0.0)


def fail_next_reads(monkeypatch: pytest.MonkeyPatch, *error_numbers: int) -> None:
    """The next reads of a file raise these errors, one after the other."""
    read = direct_io.read_blocks
    errors = iter(error_numbers)

    def failing_read(*arguments: Any) -> dict[int, bytes]:
        for number in errors:
            raise OSError(number, os.strerror(number))
        return read(*arguments)

    monkeypatch.setattr(direct_io, "read_blocks", failing_read)


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


# --- several ranks --------------------------------------------------------------------------------


def fail_reads(monkeypatch: pytest.MonkeyPatch, fails: Callable[[Path], bool]) -> None:
    """Every read of a file for which `fails` returns true raises EIO."""

    def failing(read: Any) -> Any:
        def call(path: Path, *arguments: Any) -> Any:
            if fails(path):
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            return read(path, *arguments)

        return call

    monkeypatch.setattr(direct_io, "read_blocks", failing(direct_io.read_blocks))
    monkeypatch.setattr(Path, "read_bytes", failing(Path.read_bytes))


def first_reader_of(file: str) -> Callable[[Path], bool]:
    """True for the rank that reads such a file of step 2 first, whenever it reads it."""
    lock = threading.Lock()
    failing: list[int] = []

    def fails(path: Path) -> bool:
        if (path.parent.name, path.name) != ("step-000000002", file):
            return False
        with lock:
            failing.append(threading.get_ident())
            return failing[0] == threading.get_ident()

    return fails


def save_two_steps(directory: Path) -> None:
    """By two ranks, with a tensor that both write."""
    for step in (1, 2):
        save_on_all_ranks(savers(directory, 2), step, small_state(step, 200_000))


def load_on_all(directory: Path, group: Group) -> Any:
    return joint_load.load_newest(directory, WholeTensors(), group)


def load_on_first(directory: Path, group: Group) -> Any:
    return joint_load.load_newest_on_first(directory, WholeTensors(), group)


def errors_of_three(directory: Path, load: Callable[[Path, Group], Any]) -> set[str]:
    def fail(group: Group) -> str:
        with pytest.raises(LookupError) as raised:
            load(directory, group)
        return str(raised.value)

    return {*run_ranks(3, fail)}


@pytest.mark.parametrize("file", [MANIFEST, METADATA, "__0_0.distcp", SECOND_FILE])
def test_what_only_one_rank_cannot_read_costs_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """All ranks end with one error, which names the worker, the file and the cause."""
    save_two_steps(tmp_path)
    fail_reads(monkeypatch, first_reader_of(file))
    [error] = errors_of_three(tmp_path, load_on_all)
    assert error.startswith("worker ")
    assert f"on {platform.node()} cannot read a file that worker " in error
    assert f"Input/output error: '{tmp_path / 'step-000000002' / file}'" in error
    assert "repair its mount there, and start the job again" in error
    assert steps_in(tmp_path) == [1, 2]


@pytest.mark.parametrize("file", [MANIFEST, METADATA, SECOND_FILE])
def test_what_only_the_rank_that_loads_cannot_read_costs_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """A model that is not sharded is loaded by one rank; the others look for it."""
    save_two_steps(tmp_path)
    fail_reads(monkeypatch, first_reader_of(file))
    [error] = errors_of_three(tmp_path, load_on_first)
    assert error.startswith(f"worker 0 on {platform.node()} cannot read a file that worker 1 can")
    assert f"Input/output error: '{tmp_path / 'step-000000002' / file}'" in error
    assert steps_in(tmp_path) == [1, 2]


@pytest.mark.parametrize("load", [load_on_all, load_on_first])
@pytest.mark.parametrize("file", [MANIFEST, METADATA, SECOND_FILE])
def test_what_no_rank_can_read_is_passed_over_and_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    file: str,
    load: Callable[[Path, Group], Any],
) -> None:
    save_two_steps(tmp_path)
    lost = tmp_path / "step-000000002" / file
    fail_reads(monkeypatch, lambda path: path == lost)
    loaded = run_ranks(3, lambda group: load(tmp_path, group))
    readers = loaded if load is load_on_all else loaded[:1]
    assert [checkpoint.step for checkpoint, _ in readers] == [1] * len(readers)
    assert loaded[len(readers) :] == [None] * (3 - len(readers))
    assert steps_in(tmp_path) == [1]
    [record] = [r for r in caplog.records if r.getMessage() == "checkpoint skipped"]
    assert f"Input/output error: '{lost}'" in vars(record)["reason"]


def test_a_file_that_another_rank_finds_damaged_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_two_steps(tmp_path)
    damaged = tmp_path / "step-000000002" / SECOND_FILE
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    fail_reads(monkeypatch, first_reader_of(SECOND_FILE))
    loaded = run_ranks(3, lambda group: load_on_all(tmp_path, group))
    assert [checkpoint.step for checkpoint, _ in loaded] == [1, 1, 1]


def test_only_the_first_rank_gets_what_it_alone_loads(tmp_path: Path) -> None:
    save_two_steps(tmp_path)
    first, *others = run_ranks(3, lambda group: load_on_first(tmp_path, group))
    assert first[0].step == 2
    assert first[1]["step"] == 2
    assert others == [None, None]
