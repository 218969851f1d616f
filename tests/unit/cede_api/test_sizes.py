"""The grammar of allowed sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.sizes import MAX_SIZE, describe, largest_within, parse, parse_one

SIZES = st.integers(min_value=1, max_value=MAX_SIZE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("2-8", (2, 3, 4, 5, 6, 7, 8), id="a range, both ends in it"),
        pytest.param("2-8/2", (2, 4, 6, 8), id="a step"),
        pytest.param("2-8/4", (2, 6), id="a step that misses the end"),
        pytest.param("2-8/100", (2,), id="a step beyond the end"),
        pytest.param("1,2,4,8", (1, 2, 4, 8), id="a list"),
        pytest.param("8,1,4,1", (1, 4, 8), id="a list in any order, each once"),
        pytest.param("4", (4,), id="one size"),
        pytest.param("3-3", (3,), id="a range of one"),
        pytest.param(" 2 - 8 / 2 ", (2, 4, 6, 8), id="spaces around signs"),
        pytest.param("1, 2", (1, 2), id="spaces after commas"),
    ],
)
def test_sizes(text: str, expected: tuple[int, ...]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("", "no list of sizes: write it like", id="nothing"),
        pytest.param("two", "no list of sizes: write it like", id="words"),
        pytest.param("1 2", "no list of sizes", id="a space instead of a comma"),
        pytest.param("2-8/", "no list of sizes", id="half a step"),
        pytest.param("2..8", "no list of sizes", id="another grammar"),
        pytest.param("-2", "no list of sizes", id="below zero"),
        pytest.param("1,,2", "no list of sizes", id="an empty entry"),
        pytest.param("٢-٨", "no list of sizes", id="digits of another script"),
        pytest.param("9" * 5000, "no list of sizes", id="an absurd number"),
        pytest.param("8-2", "put the smaller size first", id="downward"),
        pytest.param("2-8/0", "has step 0", id="no step"),
        pytest.param("0-8", "would complete the job", id="size 0 in a range"),
        pytest.param("0,4", "would complete the job", id="size 0 in a list"),
        pytest.param(f"1-{MAX_SIZE + 1}", f"at most {MAX_SIZE} pods", id="too large a range"),
        pytest.param(f"1,{MAX_SIZE + 1}", f"at most {MAX_SIZE} pods", id="too large a size"),
    ],
)
def test_an_error_names_the_mistake_and_the_cure(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse(text)


@given(SIZES, SIZES, st.integers(min_value=1, max_value=MAX_SIZE))
def test_a_range_holds_its_start_and_nothing_past_its_end(a: int, b: int, step: int) -> None:
    low, high = sorted((a, b))
    assert parse(f"{low}-{high}/{step}") == tuple(range(low, high + 1, step))


@given(st.sets(SIZES, min_size=1, max_size=20))
def test_described_sizes_can_be_parsed(wanted: set[int]) -> None:
    assert parse(describe(sorted(wanted))) == tuple(sorted(wanted))


@given(st.text(alphabet="0123456789-/, ", max_size=12))
def test_any_text_is_ascending_sizes_or_an_error(text: str) -> None:
    try:
        sizes = parse(text)
    except ValueError:
        return
    assert sizes[0] >= 1
    assert list(sizes) == sorted(set(sizes))
    assert sizes[-1] <= MAX_SIZE


@given(st.lists(SIZES, max_size=10), st.integers(min_value=0, max_value=MAX_SIZE))
def test_the_largest_size_within_a_limit(sizes: list[int], limit: int) -> None:
    largest = largest_within(sorted(sizes), limit)
    if largest is None:
        assert all(size > limit for size in sizes)
    else:
        assert largest <= limit
        assert not any(largest < size <= limit for size in sizes)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        pytest.param("8", 8, id="a size"),
        pytest.param("0", 0, id="zero"),
        pytest.param("99999999", 99999999, id="the largest"),
        pytest.param("9" * 9, None, id="too long"),
        pytest.param("", None, id="empty"),
        pytest.param("-1", None, id="below zero"),
        pytest.param(" 8", None, id="a blank"),
        pytest.param("²", None, id="a superscript"),
        pytest.param("٦", None, id="digits of another script"),
        pytest.param("many", None, id="a word"),
    ],
)
def test_a_noted_size_is_a_plain_number(text: str, size: int | None) -> None:
    assert parse_one(text) == size
