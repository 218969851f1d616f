"""The last days of the books, with what was not recorded."""

from collections import Counter

from cede.api.team_days import Day
from ledger.accounting import Gap
from ledger.days import DaySums, first_day, team_days
from ledger.months import HOUR
from tests.builders.ledger import DAY, KIND, NOW

TODAY = 24 * HOUR
NEXT = "2026-11-21"


def days(now: int, began: int = NOW, written: int | None = None, *gaps: Gap) -> tuple[Day, ...]:
    sums = DaySums(began, now if written is None else written, gaps, {})
    return team_days(sums, first_day(now, began, 30), now).days


def test_every_day_from_the_first_is_there() -> None:
    shown = days(NOW + TODAY + 6 * HOUR)
    assert shown == (Day(DAY, 24.0, 24.0), Day(NEXT, 6.0, 6.0))


def test_no_more_days_than_asked_for() -> None:
    assert first_day(NOW + 40 * TODAY, NOW, 30) == "2026-12-01"


def test_what_was_before_the_books_is_a_gap() -> None:
    (day,) = days(NOW + 12 * HOUR, began=NOW + 9 * HOUR)
    assert day == Day(DAY, 3.0, 12.0, ("the books had not begun",))


def test_a_gap_over_midnight_is_in_both_days() -> None:
    gap = Gap(NOW + 22 * HOUR, NOW + TODAY + HOUR, "the ledger did not run")
    reasons = ("the ledger did not run",)
    assert days(NOW + TODAY + 2 * HOUR, NOW, None, gap) == (
        Day(DAY, 22.0, 24.0, reasons),
        Day(NEXT, 1.0, 2.0, reasons),
    )


def test_the_last_minutes_are_no_gap_and_hours_are() -> None:
    (day,) = days(NOW + 6 * HOUR, written=NOW + 6 * HOUR - HOUR // 60)
    assert (day.recorded_hours, day.reasons) == (5.983, ())
    assert day.passed_hours == day.recorded_hours
    (day,) = days(NOW + 6 * HOUR, written=NOW + 2 * HOUR)
    assert day == Day(DAY, 2.0, 6.0, ("nothing is written since",))


def test_a_team_has_hours_and_one_without_any_is_left_out() -> None:
    values = {"owned": 8, "available": 6, "used": 5, "borrowed": 1, "lent": 1}
    row = Counter({name: value * HOUR for name, value in values.items()})
    teams = {(DAY, "vision", *KIND): row, (DAY, "gone", *KIND): Counter[str]()}
    sums = DaySums(NOW, NOW + HOUR, (), teams)
    (team,) = team_days(sums, DAY, NOW + HOUR).teams
    assert (team.team, team.owned, team.used, team.borrowed, team.lent) == ("vision", 8, 5, 1, 1)
    # of the 6 that were available, own jobs used 4
    assert team.idle == 1
