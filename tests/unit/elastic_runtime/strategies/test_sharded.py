"""Passes and shard groups of a sharded job. Whole jobs: tests/processes/test_sharded.py."""

import pytest

from elastic_runtime import Sharded
from elastic_runtime.strategies.base import Pass


@pytest.mark.parametrize(
    ("shard_group_size", "world", "expected"),
    [
        pytest.param(None, 6, 6, id="all ranks share one copy"),
        pytest.param(2, 6, 2, id="exactly that many"),
        pytest.param(2, 3, 3, id="more, if the size is not divisible"),
        pytest.param(4, 6, 6, id="the smallest divisor that is not below"),
        pytest.param(4, 2, 2, id="all, if there are fewer"),
    ],
)
def test_at_least_that_many_ranks_share_one_copy(
    shard_group_size: int | None, world: int, expected: int
) -> None:
    strategy = Sharded(lambda model, mesh: None, shard_group_size=shard_group_size)
    assert strategy.shard_group_size(world) == expected


def test_ranks_of_a_shard_group_have_equally_many_passes() -> None:
    """A rank with fewer micro-batches repeats its last one with weight 0."""
    strategy = Sharded(lambda model, mesh: None)
    assert strategy.passes(0, 3, 8) == [Pass(0), Pass(1), Pass(1, contributes=False)]
    assert strategy.passes(2, 3, 8) == [Pass(5), Pass(6), Pass(7)]


def test_a_rank_without_micro_batches_still_runs_passes() -> None:
    strategy = Sharded(lambda model, mesh: None)
    passes = [strategy.passes(rank, 4, 2) for rank in range(4)]
    assert {len(rank_passes) for rank_passes in passes} == {1}
    contributing = [p.micro_batch for rank_passes in passes for p in rank_passes if p.contributes]
    assert sorted(contributing) == [0, 1]


def test_only_the_shard_group_needs_equally_many_passes() -> None:
    strategy = Sharded(lambda model, mesh: None, shard_group_size=2)
    assert [len(strategy.passes(rank, 4, 5)) for rank in range(4)] == [1, 1, 2, 2]
