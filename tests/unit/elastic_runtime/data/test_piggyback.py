"""What the owner of a state sends is what every rank receives, or nothing."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.data.piggyback import MAX_BLOCK_BYTES, MAX_SLOT_BYTES, StateExchange, encode
from elastic_runtime.mistake import Mistake

PLAIN_DATA = st.dictionaries(
    st.text(max_size=5),
    st.integers() | st.text(max_size=20) | st.lists(st.integers(0, 2**32), max_size=8),
    max_size=4,
)


def returning(state: Any) -> Callable[[], Any]:
    return lambda: state


@given(states=st.lists(PLAIN_DATA, min_size=1, max_size=6), world=st.integers(1, 3))
def test_what_owners_send_is_what_every_rank_receives(
    states: list[dict[str, Any]], world: int
) -> None:
    exchanges = [StateExchange(len(states)) for _ in range(world)]
    blocks = list[torch.Tensor]()
    for rank, exchange in enumerate(exchanges):
        own = range(rank, len(states), world)
        blocks.append(exchange.pack(7, {number: returning(states[number]) for number in own}))
    summed = torch.stack(blocks).sum(0)
    for exchange in exchanges:
        assert list(exchange.unpack(summed)) == [
            (number, 7, state) for number, state in enumerate(states)
        ]


def commit(
    owner: StateExchange, others: list[StateExchange], step: int, state: Any
) -> list[list[tuple[int, int, Any]]]:
    """One committed step in which `owner` owns slot 0. What each of `others` receives."""
    summed = owner.pack(step, {0: returning(state)})
    list(owner.unpack(summed))
    return [list(other.unpack(summed)) for other in others]


def test_a_long_state_is_sent_in_parts_as_it_was_at_the_first() -> None:
    owner = StateExchange(1)
    receiver = StateExchange(1)
    late = StateExchange(1)
    long = {"n": "x" * 3 * MAX_SLOT_BYTES}
    newer = {"n": "newer"}
    assert commit(owner, [receiver], 1, long) == [[]]
    for step in (2, 3):
        assert commit(owner, [receiver, late], step, newer) == [[], []]
    # A rank that missed the first part receives nothing.
    assert commit(owner, [receiver, late], 4, newer) == [[(0, 1, long)], []]
    assert commit(owner, [receiver, late], 5, newer) == [[(0, 5, newer)]] * 2


def test_a_step_that_is_not_committed_leaves_no_trace() -> None:
    owner = StateExchange(1)
    receiver = StateExchange(1)
    owner.pack(1, {0: lambda: {"n": 1}})
    assert commit(owner, [receiver], 1, {"n": 2}) == [[(0, 1, {"n": 2})]]


@pytest.mark.parametrize("slots", [1, 8, 64, 1000])
def test_the_block_stays_small_whatever_the_number_of_streams(slots: int) -> None:
    assert StateExchange(slots).pack(0, {}).numel() * 2 <= MAX_BLOCK_BYTES


@pytest.mark.parametrize(
    ("state", "message"),
    [
        pytest.param({"a": (1, 2)}, "lists instead of tuples", id="tuple"),
        pytest.param({1: 2}, "strings as keys", id="number as key"),
        pytest.param({"a": torch.zeros(1)}, "stream 3 is not plain data", id="tensor"),
    ],
)
def test_a_state_that_would_be_restored_differently_is_refused(state: Any, message: str) -> None:
    with pytest.raises(Mistake, match=message):
        encode(3, state)
