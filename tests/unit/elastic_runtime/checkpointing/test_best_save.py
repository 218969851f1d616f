"""When the best state is saved, and that its checkpoint stays."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import pytest

from elastic_runtime.checkpointing import best_mark, best_save, joint_load, restore
from elastic_runtime.checkpointing.best_mark import BestMark
from elastic_runtime.checkpointing.best_save import BestSave
from elastic_runtime.checkpointing.saver import Saver
from elastic_runtime.state.destination import WholeTensors
from tests.builders.saves import ignore_report, save, small_state, steps_in


def saver(directory: Path, reports: dict[str, Any] | None = None) -> Saver:
    return Saver(directory, 0, ignore_report if reports is None else reports.update)


def measure(saver: Saver, step: int, value: float) -> bool:
    """The script measures this step. Whether its state is saved."""
    saver.best.request(BestMark(step, value))
    is_due = saver.best.is_due(step)
    if is_due:
        saver.save_and_wait(step, lambda: small_state(step))
    return is_due


def test_a_state_is_saved_if_it_is_better_than_the_marked_one(tmp_path: Path) -> None:
    leader = saver(tmp_path)
    assert [measure(leader, step, value) for step, value in ((1, 3.0), (2, 4.0), (3, 2.0))] == [
        True,
        False,
        True,
    ]
    assert best_mark.read(tmp_path) == BestMark(3, 2.0)


def test_the_best_is_not_removed_to_make_room(tmp_path: Path) -> None:
    leader = saver(tmp_path)
    measure(leader, 1, 0.5)
    for step in (2, 3, 4):
        save(tmp_path, step, small_state(step))
    assert steps_in(tmp_path) == [1, 3, 4]
    # The one before is, once there is a better one.
    measure(leader, 5, 0.4)
    save(tmp_path, 6, small_state(6))
    save(tmp_path, 7, small_state(7))
    assert steps_in(tmp_path) == [5, 6, 7]


def test_after_a_restart_a_value_is_compared_with_the_marked_one(tmp_path: Path) -> None:
    measure(saver(tmp_path), 1, 0.5)
    assert not measure(saver(tmp_path), 9, 0.6)
    assert measure(saver(tmp_path), 10, 0.4)


def test_a_job_that_died_between_checkpoint_and_mark_marks_it_after_its_restart(
    tmp_path: Path,
) -> None:
    """It resumes from that checkpoint and measures it again."""
    measure(saver(tmp_path), 1, 0.5)
    save(tmp_path, 2, small_state(2))
    assert best_mark.read(tmp_path) == BestMark(1, 0.5)
    assert measure(saver(tmp_path), 2, 0.4)
    assert best_mark.read(tmp_path) == BestMark(2, 0.4)


def test_a_step_that_is_durable_already_is_marked_and_not_saved_again(tmp_path: Path) -> None:
    leader = saver(tmp_path)
    leader.save_and_wait(3, lambda: small_state(3))
    assert not measure(leader, 3, 0.5)
    assert best_mark.read(tmp_path) == BestMark(3, 0.5)


def test_the_other_ranks_wait_until_the_last_state_is_marked(tmp_path: Path) -> None:
    leader, other = saver(tmp_path), saver(tmp_path)
    leader.save_and_wait(3, lambda: small_state(3))
    other.best.request(BestMark(3, 0.5))
    with ThreadPoolExecutor() as pool:
        waits = pool.submit(other.best.wait_for_mark)
        assert not waits.done()
        measure(leader, 3, 0.5)
        waits.result()
    assert best_mark.read(tmp_path) == BestMark(3, 0.5)


@pytest.mark.parametrize("value", [0.6, 0.5, float("nan")])
def test_they_do_not_wait_for_a_state_that_is_not_the_best(tmp_path: Path, value: float) -> None:
    measure(saver(tmp_path), 1, 0.5)
    other = saver(tmp_path)
    other.best.request(BestMark(3, value))
    other.best.wait_for_mark()


def test_they_wait_for_a_limited_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The leading rank may be lost."""
    monkeypatch.setattr(best_save, "MARK_TIMEOUT_S", 0.0)
    caplog.set_level("INFO")
    other = saver(tmp_path)
    other.best.request(BestMark(3, 0.5))
    other.best.wait_for_mark()
    assert caplog.messages == ["the best was not marked in time"]


def test_a_last_save_of_the_measured_step_is_marked(tmp_path: Path) -> None:
    """The job stops before the next step is committed."""
    leader = saver(tmp_path)
    leader.best.request(BestMark(3, 0.5))
    leader.save_and_wait(3, lambda: small_state(3))
    assert best_mark.read(tmp_path) == BestMark(3, 0.5)


def test_the_state_of_another_step_is_not_taken_for_the_measured_one(tmp_path: Path) -> None:
    leader = saver(tmp_path)
    leader.best.request(BestMark(3, 0.5))
    assert not leader.best.is_due(4)
    leader.save_and_wait(4, lambda: small_state(4))
    assert best_mark.read(tmp_path) is None


def full(*_: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_on_a_full_disk_the_best_before_stays_and_the_next_one_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = dict[str, Any]()
    leader = saver(tmp_path, reports)
    measure(leader, 1, 0.5)
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        assert measure(leader, 2, 0.4)
        assert "No space left" in reports["save_message"]
    assert best_mark.read(tmp_path) == BestMark(1, 0.5)
    # Better than the kept one, though not than the one that was lost.
    assert measure(leader, 3, 0.45)
    assert best_mark.read(tmp_path) == BestMark(3, 0.45)


def test_a_mark_that_cannot_be_written_is_reported_and_the_save_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = dict[str, Any]()
    best = BestSave(tmp_path, reports.update, lambda _: True, lambda: 2)
    save(tmp_path, 2, small_state(2))
    best.request(BestMark(2, 0.5))
    monkeypatch.setattr(best_mark, "write", full)
    best.mark(2)
    assert "could not be marked as the best" in reports["save_message"]
    assert steps_in(tmp_path) == [2]


def test_a_save_that_does_not_end_costs_the_best_and_is_reported(tmp_path: Path) -> None:
    reports = dict[str, Any]()
    best = BestSave(tmp_path, reports.update, lambda _: False, lambda: -1)
    best.request(BestMark(2, 0.5))
    assert not best.is_due(2)
    assert "step 2 is not kept as the best" in reports["save_message"]


def test_the_best_can_be_loaded(tmp_path: Path) -> None:
    leader = saver(tmp_path)
    measure(leader, 1, 0.5)
    measure(leader, 2, 0.6)
    save(tmp_path, 3, small_state(3))
    best = restore.best(tmp_path)
    assert best
    assert best.step == restore.load(best)["step"] == 1


def test_a_damaged_best_is_not_loaded_and_not_named_once_it_is_set_aside(tmp_path: Path) -> None:
    measure(saver(tmp_path), 1, 0.5)
    save(tmp_path, 2, small_state(2))
    measure(saver(tmp_path), 3, 0.4)
    os.truncate(tmp_path / "step-000000003" / "__0_0.distcp", 10)
    assert restore.best(tmp_path) is None
    loaded = joint_load.load_newest(tmp_path, WholeTensors())
    assert loaded
    assert loaded[0].step == 2
    assert not (tmp_path / best_mark.MARK).exists()


def test_a_mark_that_cannot_be_read_is_a_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is better than what nobody knows, and no checkpoint is removed."""
    reports = dict[str, Any]()
    leader = saver(tmp_path, reports)
    measure(leader, 1, 0.5)
    save(tmp_path, 2, small_state(2))

    def fail(_: Path) -> NoReturn:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", fail)
        assert not measure(leader, 3, 0.1)
    assert "cannot be read" in reports["save_message"]
    with monkeypatch.context() as patch:
        patch.setattr(best_mark, "read", fail)
        save(tmp_path, 3, small_state(3))
        save(tmp_path, 4, small_state(4))
    assert steps_in(tmp_path) == [1, 2, 3, 4]


def test_a_state_that_is_durable_already_is_marked_at_the_end(tmp_path: Path) -> None:
    leader = saver(tmp_path)
    leader.save_and_wait(4, lambda: small_state(4))
    leader.best.request(BestMark(4, 0.5))
    assert not leader.is_needed(4)
    assert best_mark.read(tmp_path) == BestMark(4, 0.5)
