"""A save is whole or is not one; what cannot be written leaves the old saves as they were."""

import errno
import json
import logging
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from elastic_runtime.checkpointing import direct_io, restore, save_format
from elastic_runtime.checkpointing.saver import Saver
from tests.builders.saves import save

STATE = "__0_0.distcp"


def state(step: int, numbers: int = 1000) -> dict[str, Any]:
    return {
        "step": step,
        "model": {"w": torch.arange(float(numbers))},
        "also": [(1, 2.5, "x", None)],
    }


def steps(directory: Path) -> list[int]:
    return sorted(int(p.name.removeprefix("step-")) for p in directory.glob("step-*"))


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """A disk that is full: no file of this process may grow past `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    said = save(tmp_path, 7, state(7))
    found = restore.newest(tmp_path)
    assert found == said
    assert found
    loaded = restore.load(found)
    assert torch.equal(loaded["model"]["w"], state(7)["model"]["w"])
    assert (loaded["step"], loaded["also"]) == (7, [(1, 2.5, "x", None)])


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    for step in (5, 20, 10, 100):
        save(tmp_path, step, state(step))
    assert steps(tmp_path) == [20, 100]


def test_a_save_of_an_earlier_step_is_never_the_one_to_go(tmp_path: Path) -> None:
    """The later ones may be torn: the job began again before them."""
    for step in (50, 60):
        truncate(save(tmp_path, step, state(step)).path)
    made = [save(tmp_path, step, state(step)) for step in (5, 10, 15)]
    assert steps(tmp_path) == [10, 15, 50, 60]
    assert restore.newest(tmp_path) == made[-1]


def test_no_directory_and_no_save_are_no_error(tmp_path: Path) -> None:
    assert restore.newest(tmp_path / "missing") is None
    assert restore.newest(tmp_path) is None


def truncate(save: Path) -> None:
    with open(save / STATE, "r+b") as file:
        file.truncate(100)


def flip_a_bit(save: Path) -> None:
    raw = bytearray((save / STATE).read_bytes())
    raw[len(raw) // 2] ^= 1
    (save / STATE).write_bytes(raw)


def lose_the_state(save: Path) -> None:
    (save / STATE).unlink()


def lose_the_manifest(save: Path) -> None:
    (save / save_format.MANIFEST).unlink()


def tear_the_manifest(save: Path) -> None:
    (save / save_format.MANIFEST).write_bytes((save / save_format.MANIFEST).read_bytes()[:20])


def empty_the_manifest(save: Path) -> None:
    (save / save_format.MANIFEST).write_text(json.dumps({"step": 2, "files": {}}))


def write_another_manifest(save: Path) -> None:
    (save / save_format.MANIFEST).write_text(json.dumps([{"step": 2, "files": []}]))


def change_a_digit(save: Path) -> None:
    """Where the first piece's data begins: what is there instead has the right size."""
    manifest = json.loads((save / save_format.MANIFEST).read_text())
    manifest["pieces"][0]["begin"] += 64
    (save / save_format.MANIFEST).write_text(json.dumps(manifest))


HARMS = [
    truncate,
    flip_a_bit,
    lose_the_state,
    lose_the_manifest,
    tear_the_manifest,
    empty_the_manifest,
    write_another_manifest,
    change_a_digit,
]


@pytest.mark.parametrize("harm", HARMS)
def test_a_job_begins_from_the_save_before_a_harmed_one_and_does_not_take_that_for_the_newest_again(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    # large enough to be read into place
    numbers = 30_000
    live = {"model.w": torch.zeros(numbers)}
    old = save(tmp_path, 1, state(1, numbers))
    harm(save(tmp_path, 2, {**state(2, numbers), "model": {"w": torch.ones(numbers)}}).path)
    # somebody's copy
    (tmp_path / "step-000000001.bak").mkdir()
    found = restore.load_newest(tmp_path, live)
    assert found
    assert found[0] == old
    # no fresh memory
    assert found[1]["model"]["w"] is live["model.w"]
    assert torch.equal(live["model.w"], state(1, numbers)["model"]["w"])
    assert Saver(tmp_path, 0, lambda **_: None).newest_step() == 1
    # for people to look at
    assert (tmp_path / "harmed-step-000000002").is_dir()


def test_saves_of_which_none_is_whole_are_no_beginning_anew(tmp_path: Path) -> None:
    for step in (1, 2):
        flip_a_bit(save(tmp_path, step, state(step)).path)
    with pytest.raises(LookupError, match=r"none of the 2 saves in .* is whole"):
        restore.load_newest(tmp_path, {})
    assert steps(tmp_path) == [1, 2]


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmed_save_is_passed_over_with_a_line_that_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None]
) -> None:
    old = save(tmp_path, 1, state(1))
    harm(save(tmp_path, 2, state(2)).path)
    with caplog.at_level(logging.WARNING):
        assert restore.newest(tmp_path) == old
    assert any("step-000000002" in str(record.__dict__) for record in caplog.records)


def test_a_full_disk_is_said_and_the_old_save_stays(tmp_path: Path) -> None:
    old = save(tmp_path, 1, state(1))
    with files_at_most(50_000), pytest.raises(OSError, match="saving step 2"):
        save(tmp_path, 2, state(2, 1_000_000))
    assert restore.newest(tmp_path) == old
    assert [p.name for p in tmp_path.iterdir()] == [old.path.name]
    # and saving works again once there is room
    assert save(tmp_path, 3, state(3)).step == 3


def test_a_save_of_another_form_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = save(tmp_path, 1, state(1))
    newer = save(tmp_path, 2, state(2)).path / save_format.MANIFEST
    newer.write_text(
        json.dumps(json.loads(newer.read_text()) | {"version": save_format.VERSION + 1})
    )
    assert restore.newest(tmp_path) == old
    assert any(
        f"its form is version {save_format.VERSION + 1}, ours is {save_format.VERSION}"
        in str(record.__dict__)
        for record in caplog.records
    )


def test_a_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"saving step 1 to .*file.*: .*Not a directory"):
        save(tmp_path / "file", 1, state(1))


def test_saves_that_hold_code_are_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
            return print, ("run",)

    saved = save(tmp_path, 1, {"step": 1, "model": Evil()})
    with pytest.raises(Exception, match="Weights only load failed"):
        restore.load(saved)


def test_a_newest_save_of_another_version_is_neither_passed_over_nor_renamed(
    tmp_path: Path,
) -> None:
    save(tmp_path, 1, state(1))
    newer = save(tmp_path, 2, state(2)).path / save_format.MANIFEST
    newer.write_text(
        json.dumps(json.loads(newer.read_text()) | {"version": save_format.VERSION + 1})
    )
    with pytest.raises(
        LookupError,
        match=(
            r"was written by another elastic_runtime: .* take the image that wrote it, or move "
            r"it away"
        ),
    ):
        restore.load_newest(tmp_path, {})
    assert steps(tmp_path) == [1, 2]


def test_a_file_server_that_is_away_for_a_moment_costs_no_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1, state(1))
    newest = save(tmp_path, 2, state(2))
    answers_badly(monkeypatch, errno.ESTALE)
    found = restore.load_newest(tmp_path, {})
    assert found
    assert found[0] == newest
    assert steps(tmp_path) == [1, 2]


def answers_badly(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    """The next reads of a file fail so."""
    read = direct_io.read
    errors = iter(numbers)

    def fails(*of: Any) -> str:
        for number in errors:
            raise OSError(number, os.strerror(number))
        return read(*of)

    monkeypatch.setattr(direct_io, "read", fails)
    monkeypatch.setattr(restore, "AGAIN_S", 0.0)


def test_a_file_server_that_stays_away_costs_no_save_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (1, 2):
        save(tmp_path, step, state(step))
    answers_badly(monkeypatch, errno.ESTALE, errno.ESTALE)
    with pytest.raises(
        LookupError,
        match=r"step-000000002 cannot be read: .*Stale file handle; cure that, or move it away",
    ):
        restore.load_newest(tmp_path, {})
    assert steps(tmp_path) == [1, 2]


def test_a_disk_that_has_lost_the_newest_save_gives_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = save(tmp_path, 1, state(1))
    save(tmp_path, 2, state(2))
    answers_badly(monkeypatch, errno.EIO, errno.EIO)
    found = restore.load_newest(tmp_path, {})
    assert found
    assert found[0] == old
    assert steps(tmp_path) == [1]


def test_a_directory_that_cannot_be_listed_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Path) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "listdir", refused)
    with pytest.raises(PermissionError):
        restore.load_newest(tmp_path, {})
