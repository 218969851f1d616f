"""Months and hours as people write and read them."""

import pytest

from ledger.months import HOUR, hours, last_months, parse_month, percent


@pytest.mark.parametrize(
    ("text", "days"), [("2026-11", 30), ("2026-12", 31), ("2027-02", 28), ("2028-02", 29)]
)
def test_a_month_has_its_days(text: str, days: int) -> None:
    month = parse_month(text)
    assert (month.name, month.end - month.begin) == (text, days * 24 * HOUR)


@pytest.mark.parametrize("text", ["", "2026", "2026-13", "11-2026", "2026-11-01", "november"])
def test_what_is_no_month_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no month: write it like 2026-11"):
        parse_month(text)


@pytest.mark.parametrize(
    ("began", "count", "names"),
    [
        pytest.param("2026-11", 12, ["2027-01", "2026-12", "2026-11"], id="since the books began"),
        pytest.param("2026-11", 2, ["2027-01", "2026-12"], id="no more than asked for"),
        pytest.param("2027-01", 12, ["2027-01"], id="the first month"),
    ],
)
def test_the_last_months_begin_with_the_newest(began: str, count: int, names: list[str]) -> None:
    months = last_months(parse_month(began).begin, parse_month("2027-01").begin, count)
    assert [month.name for month in months] == names
    assert months == tuple(map(parse_month, names))


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0.000000"),
        (HOUR, "1.000000"),
        (HOUR // 3, "0.333333"),
        (10**18, "277777777.777778"),
        (1, "0.000000"),
        (-HOUR, "-1.000000"),
    ],
)
def test_hours_are_rounded_to_a_millionth(microseconds: int, text: str) -> None:
    assert hours(microseconds) == text


def test_a_part_of_nothing_is_left_out() -> None:
    assert (percent(1, 3), percent(0, 5), percent(1, 0)) == ("33.33", "0.00", "")
