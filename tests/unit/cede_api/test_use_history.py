"""The history of days: what the ledger prints is read again, and damage is named."""

from decimal import Decimal

import pytest

from cede.api.names import GPU
from cede.api.use_history import DayUse, UseHistory, parse_history

DAY = DayUse(
    "2026-11-20", "vision", "p5", GPU, Decimal(192), Decimal("1.5"), Decimal(0), Decimal(96)
)
HISTORY = UseHistory("2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z", Decimal("0.5"), (DAY, DAY))


@pytest.mark.parametrize("days", [(), (DAY, DAY)])
def test_what_is_printed_is_read_again(days: tuple[DayUse, ...]) -> None:
    history = UseHistory(HISTORY.begin, HISTORY.end, Decimal("0.5"), days)
    assert parse_history(history.text()) == history
    assert history.recorded_hours == Decimal("23.5")


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        pytest.param("{", "month,team\n{", id="CSV before it"),
        pytest.param('"192"', '"-192"', id="below zero"),
        pytest.param('"192"', '"NaN"', id="no number"),
        pytest.param("2026-11-21T", "2026-11-19T", id="an end before the begin"),
        pytest.param('"used"', '"spent"', id="another version"),
    ],
)
def test_what_is_no_history_is_refused_in_one_line(part: str, damage: str) -> None:
    assert part in HISTORY.text()
    with pytest.raises(ValueError, match="not what `python -m ledger history` prints: ") as error:
        parse_history(HISTORY.text().replace(part, damage, 1))
    assert "\n" not in str(error.value)
