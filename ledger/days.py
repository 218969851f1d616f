"""PURE. The last days of the books, as the page shows them: what was not recorded is told apart."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cede.api.team_days import Day, TeamDay, TeamDays
from ledger.accounting import DAY, Gap, day_of
from ledger.months import HOUR
from ledger.statement import NOT_BEGUN
from ledger.statement_tables import idle
from ledger.timeline import SECOND

LATE = 600 * SECOND
"""The books are up to 150 s behind. When they are so far behind, nobody knows why yet."""
NOT_WRITTEN = "nothing is written since"
DayKey = tuple[str, str, str, str]
"""Day, team, instance type, resource."""


@dataclass(frozen=True)
class DaySums:
    """What the books have of these days. Times are microseconds since 1970, and sums
    accelerator-microseconds, by the names of their columns."""

    began: int
    written: int
    gaps: tuple[Gap, ...]
    teams: Mapping[DayKey, Counter[str]]


def first_day(now: int, began: int, days: int) -> str:
    """The first of so many days up to now, but none before the books."""
    return day_of(max(began, now - (days - 1) * DAY))


def begin_of(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * SECOND


def team_days(sums: DaySums, first: str, now: int) -> TeamDays:
    rows = [_team_day(key, row) for key, row in sorted(sums.teams.items()) if any(row.values())]
    days = tuple(_day(begin, sums, now) for begin in range(begin_of(first), now + 1, DAY))
    return TeamDays(days, tuple(rows))


def _team_day(key: DayKey, row: Counter[str]) -> TeamDay:
    amounts = (row["owned"], row["used"], row["borrowed"], row["lent"], idle(row))
    owned, used, borrowed, lent, unused = (round(amount / HOUR, 3) for amount in amounts)
    return TeamDay(*key, owned=owned, used=used, borrowed=borrowed, lent=lent, idle=unused)


def _day(begin: int, sums: DaySums, now: int) -> Day:
    # what the books lack of the last minutes is no gap
    known = now if now - sums.written > LATE else sums.written
    end = max(begin, min(begin + DAY, known))
    missing = [
        gap
        for gap in (*sums.gaps, Gap(0, sums.began, NOT_BEGUN), Gap(sums.written, now, NOT_WRITTEN))
        if gap.begin < end and gap.end > begin
    ]
    lost = sum(min(gap.end, end) - max(gap.begin, begin) for gap in missing)
    reasons = dict.fromkeys(gap.reason for gap in missing)
    passed = end - begin
    return Day(
        day_of(begin), round((passed - lost) / HOUR, 3), round(passed / HOUR, 3), tuple(reasons)
    )
