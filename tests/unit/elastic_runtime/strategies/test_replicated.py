"""Every rank holds the whole state."""

import logging
from typing import Any

import pytest
import torch

from elastic_runtime.distributed import state_transfer
from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.recovery import RecoveryPlan
from elastic_runtime.strategies.base import Pass
from elastic_runtime.strategies.replicated import Replicated
from tests.harness.thread_ranks import run_ranks


class RecordingState:
    """As much of a training state as the strategy uses; it records what it received or loaded."""

    def __init__(self, built: bytes = b"", *, has_checkpoint: bool = False) -> None:
        self.built = built
        self.has_checkpoint = has_checkpoint
        self.model = torch.nn.Linear(2, 2)
        self.sum_count = 1
        self.events: list[tuple[str, int]] = []

    def state_dict(self) -> dict[str, Any]:
        return {"step": 3}

    def receive(self, group: Group, source: int) -> None:
        self.events.append(("received", source))
        assert state_transfer.receive(group, source) == {"step": 3}

    def digest(self) -> bytes:
        return self.built

    def find_saved(self, group: Group | None) -> None:
        """Nothing to do: `load_newest` knows."""

    def load_newest(self, group: Group | None) -> bool:
        self.events.append(("loaded", group.rank if group else 0))
        return self.has_checkpoint


def enter(
    group: Group | None, recovery: RecoveryPlan, state: RecordingState | None = None
) -> list[tuple[str, int]]:
    state = state or RecordingState()
    strategy = Replicated()
    strategy.attach(state)  # type: ignore[arg-type]
    strategy.enter(group, recovery)
    return state.events


def test_a_rank_has_one_pass_for_each_of_its_micro_batches() -> None:
    strategy = Replicated()
    assert strategy.passes(0, 3, 8) == [Pass(0), Pass(1)]
    assert strategy.passes(2, 3, 8) == [Pass(5), Pass(6), Pass(7)]
    assert strategy.shard_group_size(3) == 0


def test_ranks_receive_the_state_from_the_ranks_that_have_it_in_turn() -> None:
    recovery = RecoveryPlan(step=3, committers=(1,), holders=(0,), receivers=(2, 3))
    events = run_ranks(4, lambda group: enter(group, recovery))
    assert events == [[], [], [("received", 0)], [("received", 1)]]


COLD_START = RecoveryPlan(step=0, committers=(), holders=(), receivers=(0, 1, 2))


def test_at_a_cold_start_all_ranks_receive_what_rank_0_loaded() -> None:
    """Also one that happens to have built the same: the digests are not compared."""
    events = run_ranks(
        3, lambda group: enter(group, COLD_START, RecordingState(b"same", has_checkpoint=True))
    )
    assert events == [
        [("loaded", 0)],
        [("loaded", 1), ("received", 0)],
        [("loaded", 2), ("received", 0)],
    ]


def test_at_a_cold_start_nothing_is_sent_to_a_rank_that_has_built_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    built = (b"same", b"same", b"other")
    with caplog.at_level(logging.INFO):
        events = run_ranks(
            3, lambda group: enter(group, COLD_START, RecordingState(built[group.rank]))
        )
    assert events == [[("loaded", 0)], [("loaded", 1)], [("loaded", 2), ("received", 0)]]
    [record] = [record for record in caplog.records if "no common seed" in record.message]
    assert record.__dict__["ranks"] == [2]


def test_at_a_cold_start_a_state_that_may_still_change_is_replaced() -> None:
    built = (b"", b"")
    events = run_ranks(2, lambda group: enter(group, COLD_START, RecordingState(built[group.rank])))
    assert events == [[("loaded", 0)], [("loaded", 1), ("received", 0)]]


def test_a_job_of_one_starts_with_what_it_has() -> None:
    assert enter(None, COLD_START) == [("loaded", 0)]
