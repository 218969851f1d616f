"""The note of which objects a controller cannot read."""

import pytest

from cede.api.unreadable import ALL_READABLE, MAX_FIRST, UnreadableObjects, count_unreadable, parse


@pytest.mark.parametrize(
    "reasons",
    [
        pytest.param([], id="all can be read"),
        pytest.param(["Pod a/odd: Expected `object`, got `str`"], id="one"),
        pytest.param(["Job a/b: 1: 2", "Pod a/c: x"], id="several"),
    ],
)
def test_a_note_is_read_as_it_was_written(reasons: list[str]) -> None:
    objects = count_unreadable(reasons)
    assert (objects.count, objects.first) == (len(reasons), (reasons or [""])[0])
    assert parse(objects.note) == objects
    assert bool(objects.note) == bool(reasons)


def test_a_note_is_bounded() -> None:
    objects = count_unreadable(["x" * 10_000] * 10_000)
    assert (objects.count, len(objects.first)) == (10_000, MAX_FIRST)
    assert len(objects.note) < MAX_FIRST + 10
    assert len(parse(f"1: {'x' * 10_000}").first) == MAX_FIRST


@pytest.mark.parametrize("text", ["", "some", "-1: Pod a/b", "x: Pod a/b"])
def test_another_text_says_nothing(text: str) -> None:
    assert parse(text) == ALL_READABLE == UnreadableObjects()
