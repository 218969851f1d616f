"""Copies of a shard in the memory of its rank and of the next one."""

import torch

from elastic_runtime.distributed.group import Group
from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.strategies.peer_copies import PeerCopies
from elastic_runtime.strategies.sharded_state import ShardState, TensorTable
from tests.harness.thread_ranks import run_ranks


def shard_state(number: int, count: int) -> ShardState:
    """The rows of one shard of a tensor with rows 0, 1, 2, 3."""
    shard = Shard(number, count)
    first, last = shard.rows(4)
    table = TensorTable([("w", "")], [(4, 1)], [torch.float32])
    return ShardState(shard, table, [torch.arange(4.0).view(4, 1)[first:last].clone()], {})


def take(copies: PeerCopies, group: Group, step: int) -> None:
    state = shard_state(group.rank % group.shard_group_size, group.shard_group_size)
    copies.take(group, state, {"step": step})


def test_each_rank_keeps_its_shard_and_that_of_the_rank_before() -> None:
    """Within its shard group: ranks 0 and 1, and ranks 2 and 3."""

    def body(group: Group) -> dict[Shard, list[float]]:
        copies = PeerCopies(4)
        take(copies, group, step=8)
        copy = copies.get(8)
        assert copy
        assert copy.extra_state == {"step": 8}
        return {shard: rows[0].flatten().tolist() for shard, rows in copy.shards.items()}

    whole = {Shard(0, 2): [0.0, 1.0], Shard(1, 2): [2.0, 3.0]}
    assert run_ranks(4, body, shard_group_size=2) == [whole] * 4


def test_the_copy_before_is_kept_until_a_later_step_is_committed() -> None:
    def body(group: Group) -> list[list[int]]:
        copies = PeerCopies(4)
        steps = []
        for step in (4, 8):
            take(copies, group, step)
            copies.step_committed(step)
            steps.append(list(copies.shards_by_step()))
        copies.step_committed(9)
        steps.append(list(copies.shards_by_step()))
        copies.clear()
        return [*steps, list(copies.shards_by_step())]

    assert run_ranks(2, body, shard_group_size=2) == [[[4], [4, 8], [8], []]] * 2


def test_a_copy_is_due_at_its_interval_and_in_a_new_group() -> None:
    def body(group: Group) -> list[bool]:
        copies = PeerCopies(4)
        before = copies.is_due(3, group)
        take(copies, group, step=3)
        return [before, copies.is_due(4, group), copies.is_due(5, group)]

    assert run_ranks(2, body, shard_group_size=2) == [[True, True, False]] * 2


def test_no_copy_is_due_without_an_interval_or_a_neighbour() -> None:
    assert not PeerCopies(0).is_due(4, Group(1, 0, 2, 2))
    assert not PeerCopies(4).is_due(4, Group(1, 0, 2, 1))
