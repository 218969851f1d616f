"""Which rows move between which ranks when the number of shards changes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.state.reshard_plan import (
    Move,
    Shard,
    is_complete,
    plan_handover,
    plan_moves,
    shard_group_size,
)


@given(st.integers(0, 40), st.integers(1, 9))
def test_a_shard_has_the_rows_that_torch_chunk_gives_it(rows: int, total: int) -> None:
    chunks = list(torch.arange(rows).chunk(total)) if rows else []
    for number in range(total):
        expected = chunks[number].tolist() if number < len(chunks) else []
        assert list(range(*Shard(number, total).rows(rows))) == expected


@pytest.mark.parametrize(
    ("world", "minimum", "expected"),
    [
        (4, 4, 4),
        (4, 2, 2),
        (3, 2, 3),
        (6, 2, 2),
        (6, 4, 6),
        (8, 3, 4),
        (2, 4, 2),
        (1, 2, 1),
        (5, 1, 1),
    ],
)
def test_shard_groups_have_equal_sizes_and_at_least_the_minimum(
    world: int, minimum: int, expected: int
) -> None:
    assert shard_group_size(world, minimum) == expected


def test_a_survivor_keeps_its_rows_and_receives_its_neighbours() -> None:
    available = {rank: [Shard(rank, 4)] for rank in range(4)}
    assert plan_moves([8], available, {0: [Shard(0, 2)], 2: [Shard(1, 2)]}, [4]) == [
        Move(0, 0, Shard(0, 4), 0, Shard(0, 2), 0, 2),
        Move(0, 1, Shard(1, 4), 0, Shard(0, 2), 2, 4),
        Move(0, 2, Shard(2, 4), 2, Shard(1, 2), 4, 6),
        Move(0, 3, Shard(3, 4), 2, Shard(1, 2), 6, 8),
    ]


def test_ranks_with_the_same_shard_share_the_sending() -> None:
    available = {0: [Shard(0, 1)], 1: [Shard(0, 1)]}
    moves = plan_moves([4, 4], available, {2: [Shard(0, 1)]}, [4, 4])
    assert moves
    assert {move.source for move in moves} == {0, 1}


def test_rows_that_no_rank_holds_are_lost() -> None:
    available = {0: [Shard(0, 3)], 2: [Shard(2, 3)]}
    assert plan_moves([9], available, {0: [Shard(0, 2)]}, [4]) is None
    assert not is_complete([9], available)
    assert is_complete([2], available) is False
    assert is_complete([9], {**available, 1: [Shard(1, 3)]})


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=4),
    st.integers(1, 6),
    st.integers(1, 6),
    st.data(),
)
def test_after_a_plan_every_rank_has_every_row_of_its_shard(
    rows: list[int], old_total: int, new_total: int, data: st.DataObject
) -> None:
    copies = data.draw(st.integers(1, 2))
    available = {rank: [Shard(rank % old_total, old_total)] for rank in range(old_total * copies)}
    needed = {rank: [Shard(rank, new_total)] for rank in range(new_total)}
    moves = plan_moves(rows, available, needed, [1] * len(rows))
    assert moves is not None
    for rank, (shard,) in needed.items():
        for tensor, count in enumerate(rows):
            received = [
                row
                for move in moves
                if (move.target, move.tensor) == (rank, tensor)
                for row in range(move.first, move.last)
            ]
            assert sorted(received) == list(range(*shard.rows(count)))
    for move in moves:
        first, last = move.source_shard.rows(rows[move.tensor])
        assert first <= move.first < move.last <= last
        assert move.source_shard in available[move.source]


@given(st.integers(1, 6), st.integers(1, 2), st.data())
def test_staying_ranks_hold_the_whole_state_before_others_leave(
    total: int, copies: int, data: st.DataObject
) -> None:
    world = total * copies
    staying = sorted(data.draw(st.sets(st.integers(0, world - 1), min_size=1)))
    new_total = data.draw(st.integers(1, 6))
    next_ranks = [staying.index(rank) if rank in staying else -1 for rank in range(world)]
    available = {rank: Shard(rank % total, total) for rank in range(world)}
    handed_over = plan_handover(available, next_ranks, new_total)
    assert set(handed_over) <= set(staying)
    after = {rank: [available[rank], *handed_over.get(rank, [])] for rank in staying}
    assert is_complete([12, 5, 1], after)
    assert handed_over == {} or {available[rank] for rank in staying} != set(available.values())
