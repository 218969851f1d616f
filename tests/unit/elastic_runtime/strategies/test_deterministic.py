"""Sums in one order at every size: parameters are bitwise equal."""

import pytest
import torch

from elastic_runtime import Deterministic
from elastic_runtime.distributed.group import Group
from tests.harness.thread_ranks import run_ranks


class Rank:
    """As much of a training state as the strategy uses, and its training loop."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(37, 41), torch.nn.Tanh(), torch.nn.Linear(41, 3)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.strategy = Deterministic()
        self.strategy.attach(self)  # type: ignore[arg-type]

    def train(self, group: Group | None, steps: range, micro_batches: int) -> None:
        rank, world = (group.rank, group.world) if group else (0, 1)
        for step in steps:
            self.strategy.begin_step(group)
            loss = torch.zeros(1)
            for current in self.strategy.passes(rank, world, micro_batches):
                seed = 1000 * step + current.micro_batch
                samples = torch.randn(5, 37, generator=torch.Generator().manual_seed(seed))
                share = self.model(samples).square().mean()
                self.strategy.backward(share, 1 / micro_batches)
                loss += share.detach() / micro_batches
                self.strategy.end_pass(current.micro_batch)
            assert self.strategy.reduce(loss, 0.05)
            self.strategy.write_gradients(0.7)
            self.optimizer.step()


def train_together(ranks: list[Rank], steps: range, micro_batches: int) -> None:
    run_ranks(
        len(ranks),
        lambda group: ranks[group.rank].train(group, steps, micro_batches),
        generation=steps.start,
    )


def parameters_and_moments(rank: Rank) -> torch.Tensor:
    moments = [value for state in rank.optimizer.state.values() for value in state.values()]
    return torch.cat([t.detach().reshape(-1) for t in [*rank.model.parameters(), *moments]])


@pytest.mark.parametrize("micro_batches", [8, 11])
def test_the_state_is_bitwise_equal_through_sizes_4_to_1(micro_batches: int) -> None:
    alone = Rank()
    alone.train(None, range(8), micro_batches)
    ranks = [Rank() for _ in range(4)]
    for size, first in ((4, 0), (3, 2), (2, 4), (1, 6)):
        train_together(ranks[:size], range(first, first + 2), micro_batches)
    assert torch.equal(parameters_and_moments(ranks[0]), parameters_and_moments(alone))


def test_the_state_is_bitwise_equal_with_more_ranks_than_micro_batches() -> None:
    alone = Rank()
    alone.train(None, range(2), 3)
    ranks = [Rank() for _ in range(5)]
    train_together(ranks, range(2), 3)
    expected = parameters_and_moments(alone)
    assert all(torch.equal(parameters_and_moments(rank), expected) for rank in ranks)
