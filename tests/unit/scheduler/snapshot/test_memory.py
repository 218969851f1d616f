"""What was read is kept while its objects stay, and is read again when they change."""

from decimal import Decimal
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.snapshot import memory as memory_module
from scheduler.snapshot.memory import Kept, ReadObjects


class Thing:
    """A version of an object: equal to no other."""


def test_an_object_is_read_once_while_it_stays() -> None:
    reads = list[Thing]()
    memory = ReadObjects(reads.append)
    first, second = Thing(), Thing()
    memory.update([first])
    removed, added = memory.update([first, second])
    assert len(reads) == 2
    assert not removed
    assert added[0][0] is second


def test_an_object_that_was_replaced_is_read_again() -> None:
    memory = ReadObjects(id)
    old, new = Thing(), Thing()
    memory.update([old])
    removed, added = memory.update([new])
    assert removed == [(old, id(old))]
    assert added == [(new, id(new))]
    assert list(memory) == [(new, id(new))]


def test_an_object_that_cannot_be_read_changes_nothing() -> None:
    memory = ReadObjects(int)
    memory.update(["1"])
    with pytest.raises(ValueError, match="many"):
        memory.update(["1", "2", "many"])
    _, added = memory.update(["1", "2"])
    assert ("2", 2) in added


def test_an_object_that_equals_the_one_before_is_not_read_again() -> None:
    """A cache that lists everything again may have equal objects."""
    memory = ReadObjects(id)
    before = [Decimal(number) for number in range(3)]
    memory.update(before)
    assert memory.update([Decimal(number) for number in range(3)]) == ([], [])
    assert memory.update([*before[:2], Decimal(7)])[0] == [(before[2], id(before[2]))]


@given(
    st.lists(st.lists(st.integers(0, 30), unique=True, max_size=20), max_size=5),
    st.sampled_from([1, 3, 256]),
    st.sampled_from([0, 2, 1000]),
)
def test_what_was_read_is_what_is_there(
    passes: list[list[int]], block: int, max_places: int
) -> None:
    """Whatever was added, replaced, deleted or moved. Each number is another object every time."""
    memory = ReadObjects[Decimal, int](int)
    with patch.multiple(memory_module, BLOCK=block, MAX_PLACES=max_places):
        for numbers in passes:
            memory.update([Decimal(number) for number in numbers])
            assert sorted(value for _, value in memory) == sorted(numbers)


def test_a_value_is_kept_while_all_its_sources_are_the_same() -> None:
    kept = Kept[str, int]()
    source, other = Thing(), Thing()
    assert kept.get("key", lambda *_: 1, source) == 1
    kept.end_pass()
    assert kept.get("key", lambda *_: 2, source) == 1
    kept.end_pass()
    assert kept.get("key", lambda *_: 3, other) == 3
    kept.end_pass()
    assert kept.get("key", lambda *_: 4, other, source) == 4


def test_a_value_that_nobody_asked_for_in_a_pass_is_forgotten() -> None:
    kept = Kept[str, int]()
    source = Thing()
    kept.get("key", lambda *_: 1, source)
    kept.end_pass()
    kept.end_pass()
    assert kept.get("key", lambda *_: 2, source) == 2


def test_a_value_that_reads_the_same_again_stays_the_same_object() -> None:
    """So nothing that is made of it is made again."""
    kept = Kept[str, list[int]]()
    first = kept.get("key", lambda _: [1], Thing())
    kept.end_pass()
    assert kept.get("key", lambda _: [1], Thing()) is first
