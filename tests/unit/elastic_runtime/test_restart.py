"""What a script under `--restart` asks."""

import os
import signal
from pathlib import Path

import pytest

from elastic_runtime import restart
from elastic_runtime.agent.settings import PROGRESS_FILE_ENV


@pytest.fixture(autouse=True)
def _signals_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "_signals", None)


def test_the_signal_is_noted_and_ends_nothing() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert not restart.stop_requested()
        os.kill(os.getpid(), signal.SIGTERM)
        assert restart.stop_requested()
        assert restart.stop_requested()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_each_call_reports_the_step_for_whoever_watches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(restart, "_calls", 0)
    monkeypatch.setattr(restart, "_last_step", -1)
    restart.progress()
    monkeypatch.setenv(PROGRESS_FILE_ENV, str(tmp_path / "progress"))
    restart.progress()
    assert (tmp_path / "progress").read_text() == "2 -1"
    restart.progress(7)
    restart.progress()
    assert (tmp_path / "progress").read_text() == "4 7"
    monkeypatch.setenv(PROGRESS_FILE_ENV, "/nowhere/progress")
    restart.progress(8)


@pytest.mark.parametrize(("world", "share"), [("1", 12), ("3", 4), ("12", 1)])
def test_micro_batches_are_shared_evenly(
    monkeypatch: pytest.MonkeyPatch, world: str, share: int
) -> None:
    monkeypatch.setenv("WORLD_SIZE", world)
    assert restart.accumulation_steps(12) == share


@pytest.mark.parametrize(("world", "micro_batches"), [("5", 12), ("24", 12), ("1", 0)])
def test_micro_batches_that_cannot_be_shared_are_refused_with_both_numbers(
    monkeypatch: pytest.MonkeyPatch, world: str, micro_batches: int
) -> None:
    monkeypatch.setenv("WORLD_SIZE", world)
    with pytest.raises(ValueError, match=f"{micro_batches} micro-batches .* by {world} ranks"):
        restart.accumulation_steps(micro_batches)
