"""What a script under `--restart` asks."""

import os
import signal

import pytest

from elastic_runtime import restart


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
