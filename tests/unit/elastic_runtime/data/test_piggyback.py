"""Small states on a collective's back: what the owner wrote is what everybody reads, or nothing."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.data.piggyback import BLOCK_BYTES, SLOT_BYTES, Mail, encode

PLAIN = st.dictionaries(
    st.text(max_size=5),
    st.integers() | st.text(max_size=20) | st.lists(st.integers(0, 2**32), max_size=8),
    max_size=4,
)


@given(states=st.lists(PLAIN, min_size=1, max_size=6), world=st.integers(1, 3))
def test_what_owners_write_is_what_every_rank_reads(
    states: list[dict[str, Any]], world: int
) -> None:
    mails = [Mail(len(states)) for _ in range(world)]
    parts = [
        mail.write(7, {n: (lambda n=n: states[n]) for n in range(len(states)) if n % world == r})  # type: ignore[misc]
        for r, mail in enumerate(mails)
    ]
    said = torch.stack(parts).sum(0)
    for mail in mails:
        assert list(mail.read(said)) == [(n, 7, state) for n, state in enumerate(states)]


def land(mail: Mail, others: list[Mail], step: int, state: Any) -> list[list[tuple[int, int, Any]]]:
    """One committed step in which `mail` owns stream 0; what each of `others` knows from it."""
    said = mail.write(step, {0: lambda: state})
    list(mail.read(said))
    return [list(other.read(said)) for other in others]


def test_a_long_state_comes_in_parts_and_is_the_one_it_was_when_it_set_out() -> None:
    owner = Mail(1)
    listener = Mail(1)
    late = Mail(1)
    long = {"n": "x" * 3 * SLOT_BYTES}
    heard = [
        land(owner, [listener], 1, long)[0],
        *(land(owner, [listener, late], step, {"n": "newer"})[0] for step in (2, 3)),
    ]
    assert heard == [[], [], []]
    last = land(owner, [listener, late], 4, {"n": "newer"})
    # who missed the beginning knows nothing of it
    assert last == [[(0, 1, long)], []]
    assert land(owner, [listener, late], 5, {"n": "newer"}) == [[(0, 5, {"n": "newer"})]] * 2


def test_a_step_that_is_not_committed_is_as_if_it_had_not_been_written() -> None:
    owner = Mail(1)
    listener = Mail(1)
    owner.write(1, {0: lambda: {"n": 1}})
    assert land(owner, [listener], 1, {"n": 2}) == [[(0, 1, {"n": 2})]]


@pytest.mark.parametrize("slots", [1, 8, 64, 1000])
def test_the_block_stays_small_whatever_the_number_of_streams(slots: int) -> None:
    assert Mail(slots).write(0, {}).numel() * 2 <= BLOCK_BYTES


@pytest.mark.parametrize(
    ("state", "complaint"),
    [
        pytest.param({"a": (1, 2)}, "lists for tuples", id="tuple"),
        pytest.param({1: 2}, "strings as keys", id="number as key"),
        pytest.param({"a": torch.zeros(1)}, "stream 3 is not plain data", id="tensor"),
    ],
)
def test_a_state_that_would_not_come_back_as_it_is_is_refused(state: Any, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        encode(3, state)
