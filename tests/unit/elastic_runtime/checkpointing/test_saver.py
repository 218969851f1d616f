"""When a save is due, what cancels it, and that no step waits for a disk."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.checkpointing import part_file, restore
from elastic_runtime.checkpointing.partition import Writer
from elastic_runtime.checkpointing.save_format import folder_name
from elastic_runtime.checkpointing.saver import SaveOrder, Saver
from tests.builders.saves import ignore_report, save_on_all_ranks, savers, trained_state

# The last rank of a generation after the other was lost.
ALONE = Writer(0, 1, 0, "2-5001")


# --- when a save is due ---------------------------------------------------------------------------


def test_saves_are_due_at_every_interval(tmp_path: Path) -> None:
    saver = Saver(tmp_path, 3, ignore_report)
    due = []
    for step in range(1, 8):
        if saver.order_for(step, requests=0):
            due.append(step)
            saver.save_and_wait(step, trained_state)
    assert due == [3, 6]


def test_a_request_without_a_checkpoint_directory_is_answered() -> None:
    messages: list[str] = []
    saver = Saver(None, 0, lambda save_message: messages.append(save_message))
    assert saver.order_for(1, requests=1) == SaveOrder.NONE
    assert messages == ["nothing was saved after step 1: give the session checkpoint="]


def test_a_request_during_a_save_is_served_after_it(tmp_path: Path) -> None:
    leader, other = savers(tmp_path, 2)
    leader.save_in_background(3, trained_state)
    assert not leader.order_for(4, requests=1)
    other.save_and_wait(3, trained_state)
    assert not leader.is_needed(3)
    assert leader.order_for(5, requests=1)
    for saver in (leader, other):
        saver.save_in_background(5, trained_state)
    assert not leader.is_needed(5)
    assert not leader.order_for(6, requests=1)


def test_no_rank_takes_a_core_for_its_file_while_others_may_still_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastic_runtime.checkpointing.saver.COPY_SPREAD_S", 60.0)
    saver = Saver(tmp_path, 0, ignore_report)
    saver.save_in_background(3, trained_state)
    assert saver._worker.is_busy
    assert list(tmp_path.iterdir()) == []
    saver.begin_writing()
    saver.wait()
    assert saver.durable_step == 3


# --- a rank is lost or leaves ---------------------------------------------------------------------


@pytest.mark.parametrize("known_by", ["it left", "its group was aborted"])
def test_a_save_is_cancelled_when_a_writer_is_lost(
    tmp_path: Path, known_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is repeated, so nobody need act: no error, and none in the status."""
    caplog.set_level("INFO")
    messages: list[str] = []
    aborted = threading.Event()
    leader = Saver(tmp_path, 0, lambda **facts: messages.append(facts["save_message"]))
    leader.enter_generation(Writer(0, 2, 0, "1-5000", aborted.is_set), writer_left=False)
    leader.save_in_background(3, trained_state)
    assert not leader.order_for(4, requests=1)
    if known_by == "it left":
        leader.enter_generation(ALONE, writer_left=True)
        assert leader.order_for(4, requests=1)
    else:
        aborted.set()
        assert leader.is_needed(3)
        leader.enter_generation(ALONE, writer_left=True)
    leader.save_and_wait(4, trained_state)
    assert not any(messages)
    [record] = [record for record in caplog.records if record.getMessage() == "save given up"]
    assert "a rank was lost or left" in vars(record)["reason"]
    assert "Traceback" not in caplog.text
    assert [path.name for path in tmp_path.iterdir()] == [folder_name(4)]


@pytest.mark.parametrize("survivor", ["the leading rank", "the other"])
def test_a_save_that_a_loss_interrupts_is_repeated(tmp_path: Path, survivor: str) -> None:
    by_rank = savers(tmp_path, 2)
    saver = by_rank[0 if survivor == "the leading rank" else 1]
    saver.save_in_background(3, trained_state)
    saver.enter_generation(ALONE, writer_left=True)
    assert saver.order_for(4, requests=0) == SaveOrder.SHARED
    saver.save_and_wait(4, trained_state)
    saver.enter_generation(Writer(0, 1, 0, "3-5002"), writer_left=True)
    assert saver.order_for(5, requests=0) == SaveOrder.NONE


def test_a_loss_after_a_save_causes_no_other(tmp_path: Path) -> None:
    leader, other = savers(tmp_path, 2)
    save_on_all_ranks([leader, other], 3)
    leader.enter_generation(ALONE, writer_left=True)
    assert leader.order_for(4, requests=0) == SaveOrder.NONE


def test_a_rank_that_still_writes_a_cancelled_save_drops_it_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: between two blocks, not at the end of its file."""
    leader, other = savers(tmp_path, 2)
    begun = threading.Event()
    write = part_file.write_part

    def write_until_cancelled(
        draft: Path,
        rank: int,
        pieces: Any,
        items: Any,
        worker: Any,
        is_cancelled: Callable[[], bool],
    ) -> None:
        begun.set()
        while not is_cancelled():
            pass
        raise OSError("cancelled")

    with monkeypatch.context() as context:
        context.setattr(part_file, "write_part", write_until_cancelled)
        other.save_in_background(3, trained_state)
        assert begun.wait(10)
        context.setattr(part_file, "write_part", write)
        for saver in (other, leader):
            saver.save_in_background(4, trained_state)
        assert not leader.is_needed(4)
    assert [path.name for path in tmp_path.iterdir()] == [folder_name(4)]


# --- a disk that does not respond -----------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1])
def test_a_disk_that_hangs_stops_no_step_and_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    messages: list[str] = []
    saver = savers(tmp_path, 2, lambda **facts: messages.append(facts.get("save_message", "")))[
        rank
    ]
    disk_responds = threading.Event()
    write = part_file.write_part

    def hang(*_: Any) -> None:
        disk_responds.wait(60)

    monkeypatch.setattr("elastic_runtime.checkpointing.saver.CANCEL_TIMEOUT_S", 0.01)
    monkeypatch.setattr("elastic_runtime.checkpointing.shared_save.PART_TIMEOUT_S", 0.0)
    monkeypatch.setattr(part_file, "write_part", hang)
    saver.save_in_background(3, trained_state)
    assert saver.order_for(4, requests=1) == SaveOrder.NONE
    # One part waits behind the one that hangs, but no second one.
    for step in (4, 5):
        saver.save_in_background(step, trained_state)
        assert saver.order_for(step + 1, requests=1) == SaveOrder.NONE
    assert "step 3 is still being written" in messages[0]
    expected = f"the part of rank {rank} of step 4 is still being written to {tmp_path}"
    assert expected in messages
    monkeypatch.setattr(part_file, "write_part", write)
    disk_responds.set()
    saver.wait()
    assert saver.order_for(7, requests=2) == SaveOrder.SHARED


def test_a_rank_that_still_writes_its_last_part_writes_the_next_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it left its part out, the other ranks would wait for it for minutes."""
    disk_responds = threading.Event()
    write = part_file.write_part

    def write_slowly(draft: Path, rank: int, *arguments: Any) -> None:
        if rank and folder_name(3) in draft.name:
            disk_responds.wait(60)
        write(draft, rank, *arguments)

    monkeypatch.setattr("elastic_runtime.checkpointing.saver.CANCEL_TIMEOUT_S", 0.5)
    monkeypatch.setattr(part_file, "write_part", write_slowly)
    by_rank = savers(tmp_path, 2)
    for step in (3, 4):
        for saver in by_rank:
            saver.save_in_background(step, trained_state)
    disk_responds.set()
    for saver in by_rank:
        saver.wait()
    newest = restore.newest_intact(tmp_path)
    assert newest
    assert newest.step == 4
