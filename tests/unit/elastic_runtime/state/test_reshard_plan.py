"""Which rows go from whom to whom."""

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
def test_a_part_has_the_rows_that_torch_chunk_gives_it(rows: int, of: int) -> None:
    chunks = list(torch.arange(rows).chunk(of)) if rows else []
    for at in range(of):
        assert list(range(*Shard(at, of).rows(rows))) == (
            chunks[at].tolist() if at < len(chunks) else []
        )


@pytest.mark.parametrize(
    ("world", "at_least", "expected"),
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
def test_copies_are_of_equal_size_and_no_larger_share_than_allowed(
    world: int, at_least: int, expected: int
) -> None:
    assert shard_group_size(world, at_least) == expected


def test_a_survivor_keeps_its_rows_and_takes_its_neighbours() -> None:
    held = {rank: [Shard(rank, 4)] for rank in range(4)}
    assert plan_moves([8], held, {0: [Shard(0, 2)], 2: [Shard(1, 2)]}, [4]) == [
        Move(0, 0, Shard(0, 4), 0, Shard(0, 2), 0, 2),
        Move(0, 1, Shard(1, 4), 0, Shard(0, 2), 2, 4),
        Move(0, 2, Shard(2, 4), 2, Shard(1, 2), 4, 6),
        Move(0, 3, Shard(3, 4), 2, Shard(1, 2), 6, 8),
    ]


def test_those_with_copies_share_the_sending() -> None:
    moves = plan_moves([4, 4], {0: [Shard(0, 1)], 1: [Shard(0, 1)]}, {2: [Shard(0, 1)]}, [4, 4])
    assert moves
    assert {move.source for move in moves} == {0, 1}


def test_rows_that_nobody_has_are_said_to_be_lost() -> None:
    held = {0: [Shard(0, 3)], 2: [Shard(2, 3)]}
    assert plan_moves([9], held, {0: [Shard(0, 2)]}, [4]) is None
    assert not is_complete([9], held)
    assert is_complete([2], held) is False
    assert is_complete([9], {**held, 1: [Shard(1, 3)]})


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=4),
    st.integers(1, 6),
    st.integers(1, 6),
    st.data(),
)
def test_after_a_plan_every_rank_has_every_row_of_its_part(
    rows: list[int], old: int, new: int, data: st.DataObject
) -> None:
    copies = data.draw(st.integers(1, 2))
    held = {rank: [Shard(rank % old, old)] for rank in range(old * copies)}
    needed = {rank: [Shard(rank, new)] for rank in range(new)}
    moves = plan_moves(rows, held, needed, [1] * len(rows))
    assert moves is not None
    for rank, (part,) in needed.items():
        for tensor, count in enumerate(rows):
            got = [
                row
                for m in moves
                if (m.target, m.tensor) == (rank, tensor)
                for row in range(m.first, m.last)
            ]
            assert sorted(got) == list(range(*part.rows(count)))
    for move in moves:
        first, last = move.source_shard.rows(rows[move.tensor])
        assert first <= move.first < move.last <= last
        assert move.source_shard in held[move.source]


@given(st.integers(1, 6), st.integers(1, 2), st.data())
def test_who_stays_holds_everything_before_others_leave(
    of: int, copies: int, data: st.DataObject
) -> None:
    world = of * copies
    stay = sorted(data.draw(st.sets(st.integers(0, world - 1), min_size=1)))
    new_of = data.draw(st.integers(1, 6))
    places = [stay.index(rank) if rank in stay else -1 for rank in range(world)]
    held = {rank: Shard(rank % of, of) for rank in range(world)}
    needed = plan_handover(held, places, new_of)
    assert set(needed) <= set(stay)
    after = {rank: [held[rank], *needed.get(rank, [])] for rank in stay}
    assert is_complete([12, 5, 1], after)
    assert needed == {} or {held[rank] for rank in stay} != set(held.values())
