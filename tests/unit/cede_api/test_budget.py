"""The ledger's note of what was used: what is written is read again, and damage is no figure."""

from decimal import Decimal

import pytest

from cede.api import names
from cede.api.budget import MonthUse, month_of, noted_use, parse_month_use

USE = MonthUse(
    "2026-11",
    "2026-11-20T00:00:00Z",
    Decimal("1.5"),
    {"vision": {"p5": {names.GPU: Decimal("12.25")}}},
)


def test_a_note_that_was_written_is_read_again() -> None:
    assert parse_month_use(USE.text()) == USE
    assert noted_use({"data": {names.MONTH_USE: USE.text()}}) == USE


@pytest.mark.parametrize("config_map", [None, {}, {"data": None}, {"data": {"other": "x"}}])
def test_without_a_note_nothing_is_known(config_map: dict[str, object] | None) -> None:
    assert noted_use(config_map) is None


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        pytest.param('"2026-11"', '"November"', id="no month"),
        pytest.param('"2026-11"', '"2099-99"', id="another month than that of its time"),
        pytest.param("2026-11-20T00:00:00Z", "soon", id="no time"),
        pytest.param("2026-11-20T00:00:00Z", "0001-01-01T00:00:00", id="a time of no clock"),
        pytest.param('"12.25"', '"-1"', id="below zero"),
        pytest.param('"12.25"', '"NaN"', id="no number"),
        pytest.param('"12.25"', '"Infinity"', id="no end"),
        pytest.param('"12.25"', '"9E+999999"', id="more than can be added"),
        pytest.param('"12.25"', '"1E+9999"', id="more than can be shown"),
        pytest.param('"1.5"', '"NaN"', id="no number of hours that are missing"),
        pytest.param('{"p5"', '["p5"', id="another shape"),
        pytest.param('"month"', '"m"', id="a field that is missing"),
        pytest.param('"month"', f'"m":{"[" * 9999}{"]" * 9999},"month"', id="too deep to read"),
    ],
)
def test_a_note_that_somebody_damaged_is_no_figure(part: str, damage: str) -> None:
    assert part in USE.text()
    assert parse_month_use(USE.text().replace(part, damage)) is None


def test_months_are_those_of_utc() -> None:
    assert month_of(1_795_132_800) == "2026-11"
    assert month_of(1_796_083_199) == "2026-11"
    assert month_of(1_796_083_200) == "2026-12"
