"""Ranks that have received the state send it on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.strategies.whole_state import transfers


def test_a_rank_that_has_received_the_state_sends_it_on() -> None:
    assert list(transfers([0], [1, 2, 3])) == [(0, 1), (0, 2), (1, 3)]


def test_all_that_have_the_state_send_it() -> None:
    assert list(transfers([1, 4], [0, 2, 3])) == [(1, 0), (4, 2), (1, 3)]


@given(sources=st.integers(1, 5), receivers=st.integers(0, 70))
def test_each_receiver_gets_the_state_once_from_a_rank_that_has_it(
    sources: int, receivers: int
) -> None:
    having = list(range(sources))
    order = list(range(sources, sources + receivers))
    for source, receiver in transfers(having, order):
        assert source in having
        having.append(receiver)
    assert sorted(having) == list(range(sources + receivers))


@pytest.mark.parametrize(
    ("receivers", "rounds"), [(1, 1), (3, 2), (7, 3), (8, 4), (63, 6), (4095, 12)]
)
def test_the_rounds_grow_with_the_logarithm_of_the_receivers(receivers: int, rounds: int) -> None:
    """A round ends for a rank with its transfer, so each takes part in one transfer a round."""
    done = {0: 0}
    for source, receiver in transfers([0], range(1, receivers + 1)):
        done[source] += 1
        done[receiver] = done[source]
    assert max(done.values()) == rounds
