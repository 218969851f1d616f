"""Where a job that starts finds the newest checkpoint. Local ones: processes/test_saves.py."""

import errno
import os
import platform
from pathlib import Path

import pytest
import torch

from elastic_runtime.checkpointing.saved_state import SavedState
from elastic_runtime.distributed.group import Group
from elastic_runtime.state.destination import Saved, WholeTensors
from tests.builders.saves import save, small_state
from tests.harness.thread_ranks import run_ranks


def saved_state(directory: Path | None, durable: list[int] | None = None) -> SavedState:
    steps = [] if durable is None else durable
    return SavedState(
        directory, None, lambda *_: None, lambda checkpoint: steps.append(checkpoint.step), int
    )


def test_all_ranks_go_by_what_the_leading_one_sees(tmp_path: Path) -> None:
    save(tmp_path / "job", 3, small_state(3))
    places = {0: tmp_path / "job", 1: tmp_path / "not mounted yet", 2: None}
    saved = run_ranks(3, lambda group: saved_state(places[group.rank]).find(group))
    assert saved == [Saved.SHARED] * 3


def test_a_newer_checkpoint_that_the_leading_rank_does_not_see_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would go back to an older one, or start over."""
    monkeypatch.setattr("elastic_runtime.checkpointing.saved_state.SIGHT_TIMEOUT_S", 0.0)
    save(tmp_path / "job", 3, small_state(3))
    places = {0: tmp_path / "not mounted", 1: None, 2: tmp_path / "job"}

    def find(group: Group) -> str:
        with pytest.raises(LookupError) as raised:
            saved_state(places[group.rank]).find(group)
        return str(raised.value)

    for error in run_ranks(3, find):
        assert error.startswith("worker 2 sees the checkpoint of step 3 in ")
        assert f"and worker 0 on {platform.node()} does not" in error


def test_a_checkpoint_that_the_leading_rank_sees_later_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastic_runtime.checkpointing.saved_state.SIGHT_INTERVAL_S", 0.0)
    save(tmp_path / "job", 3, small_state(3))
    views = iter([-1, -1, 3])

    def find(group: Group) -> Saved:
        saved = saved_state(tmp_path / "job")
        if group.rank == 0:
            monkeypatch.setattr(saved, "_listed", lambda: next(views))
        return saved.find(group)

    assert run_ranks(2, find) == [Saved.SHARED] * 2
    assert list(views) == []


def test_no_directory_and_no_checkpoint_are_nowhere(tmp_path: Path) -> None:
    for directory in (None, tmp_path, tmp_path / "missing"):
        saved = saved_state(directory)
        assert saved.find(None) == Saved.NOWHERE
        assert saved.load(None, dict) is None


def test_a_directory_that_cannot_be_listed_may_have_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> list[str]:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "listdir", refuse)
    assert saved_state(tmp_path).find(None) == Saved.SHARED


def test_the_leading_rank_reports_what_was_loaded(tmp_path: Path) -> None:
    save(tmp_path, 3, small_state(3))
    reports: list[list[int]] = [[], []]
    states = run_ranks(
        2,
        lambda group: saved_state(tmp_path, reports[group.rank]).load_rows(group, WholeTensors()),
    )
    assert reports == [[3], []]
    for state in states:
        assert state
        assert torch.equal(state["model"]["w"], small_state(3)["model"]["w"])
