"""Sums in one order at every size: parameters equal bit by bit."""

import threading
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime import Deterministic
from elastic_runtime.data import batch_assignment
from elastic_runtime.distributed.gloo import open_store
from elastic_runtime.distributed.group import Group
from elastic_runtime.strategies import summation_tree


@given(st.integers(1, 40), st.data())
def test_the_nodes_of_all_ranks_are_all_leaves_once_and_no_two_of_a_rank_could_be_one(
    leaves: int, data: st.DataObject
) -> None:
    world = data.draw(st.integers(1, leaves + 2))
    of = [
        summation_tree.cover(batch_assignment.owned(rank, world, leaves), range(leaves))
        for rank in range(world)
    ]
    assert [leaf for nodes in of for node in nodes for leaf in node] == list(range(leaves))
    assert all(
        summation_tree.parent(left, right, range(leaves)) is None
        for nodes in of
        for left, right in pairwise(nodes)
    )


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (range(8), (range(4), range(4, 8))),
        (range(10), (range(8), range(8, 10))),
        (range(4, 7), (range(4, 6), range(6, 7))),
    ],
)
def test_the_larger_half_is_a_power_of_two(node: range, expected: tuple[range, range]) -> None:
    assert summation_tree.halves(node) == expected
    assert summation_tree.parent(*expected, node) == node
    assert summation_tree.parent(expected[1], expected[0], node) is None


class OneRank:
    """As much of a session as a strategy sees."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(37, 41), torch.nn.Tanh(), torch.nn.Linear(41, 3)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.strategy = Deterministic()
        self.strategy.attach(self)  # type: ignore[arg-type]

    def train(
        self, group: Group | None, rank: int, world: int, steps: range, micro_batches: int
    ) -> None:
        for step in steps:
            self.strategy.begin_step(group)
            loss = torch.zeros(1)
            for current in self.strategy.passes(rank, world, micro_batches):
                samples = torch.randn(
                    5,
                    37,
                    generator=torch.Generator().manual_seed(1000 * step + current.micro_batch),
                )
                part: Any = self.model(samples).square().mean() / micro_batches
                part.backward()
                loss += part.detach()
                self.strategy.end_pass(current.micro_batch)
            assert self.strategy.reduce(loss, 0.05)
            self.strategy.write_gradients()
            self.optimizer.step()


def run(ranks: list[OneRank], steps: range, micro_batches: int) -> None:
    """On threads, one a rank."""
    store, port = open_store()

    def one(rank: int) -> None:
        group = Group(steps.start, rank, len(ranks))
        group.connect(f"127.0.0.1:{port}")
        ranks[rank].train(group, rank, len(ranks), steps, micro_batches)
        group.close()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(len(ranks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    del store


def parameters(rank: OneRank) -> torch.Tensor:
    moments = [value for state in rank.optimizer.state.values() for value in state.values()]
    return torch.cat([t.detach().reshape(-1) for t in [*rank.model.parameters(), *moments]])


@pytest.mark.parametrize("micro_batches", [8, 11])
def test_parameters_and_moments_are_equal_bit_by_bit_through_sizes_1_to_4(
    micro_batches: int,
) -> None:
    alone = OneRank()
    alone.train(None, 0, 1, range(8), micro_batches)
    ranks = [OneRank() for _ in range(4)]
    # who stays goes on
    for size, first in ((4, 0), (3, 2), (2, 4), (1, 6)):
        run(ranks[:size], range(first, first + 2), micro_batches)
    assert torch.equal(parameters(ranks[0]), parameters(alone))


def test_sizes_beyond_the_micro_batches_are_equal_too() -> None:
    alone = OneRank()
    alone.train(None, 0, 1, range(2), 3)
    ranks = [OneRank() for _ in range(5)]
    run(ranks, range(2), 3)
    assert all(torch.equal(parameters(rank), parameters(alone)) for rank in ranks)
