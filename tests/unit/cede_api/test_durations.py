"""The grammar of durations in annotations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.durations import describe, parse, parse_or_zero


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("1h", 3600), (" 7s ", 7), ("9999999h", 9999999 * 3600)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse(text) == seconds
    assert parse_or_zero(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "-5s", "1.5h", "1h30m", "soon", "٣s" * 3, "9s\n9s"])
def test_anything_else_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write it like 90s, 5m or 1h"):
        parse(text)
    assert parse_or_zero(text) == 0.0


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0.0), ("05m", 300.0), ("12345678s", 12345678.0)]
)
def test_only_admission_refuses_zero_and_unusual_numbers(text: str, seconds: float) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse(text)
    assert parse_or_zero(text) == seconds


def test_an_endless_number_is_a_long_but_finite_time() -> None:
    assert parse_or_zero("9" * 5000 + "h") == parse_or_zero("9" * 400 + "h") == 3600e9


def test_a_long_text_is_cut_short_in_the_message() -> None:
    with pytest.raises(ValueError, match=r"^'9{20}…' is not a duration"):
        parse("9" * 5000 + "s")


@given(st.text(max_size=12) | st.from_regex(r"\d{1,9}[smhd]", fullmatch=True))
def test_both_parsers_agree_on_everything_that_admission_accepts(text: str) -> None:
    try:
        seconds = parse(text)
    except ValueError:
        return
    assert seconds == parse_or_zero(text) >= 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (-5, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 d")],
)
def test_people_read_a_duration_in_one_unit(seconds: float, text: str) -> None:
    assert describe(seconds) == text
