"""PURE. The last days of the books, as the page shows them: what was not recorded is told apart."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cede.api.team_days import Day, TeamDay, TeamDays
from ledger.accounting import Gap
from ledger.months import HOUR
from ledger.statement import idle
from ledger.timeline import SECOND

LATE = 600 * SECOND
"""The books are up to 150 s behind. When they are so far behind, nobody knows why yet."""
NOT_BEGUN = "the books had not begun"
NOT_WRITTEN = "nothing is written since"
DAY = 24 * HOUR
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
    earliest = max(began, now - (days - 1) * DAY)
    return _name(datetime.fromtimestamp(earliest / SECOND, UTC))


def team_days(sums: DaySums, first: str, now: int) -> TeamDays:
    rows = [_team_day(key, row) for key, row in sorted(sums.teams.items()) if any(row.values())]
    return TeamDays(tuple(_day(name, sums, now) for name in _names(first, now)), tuple(rows))


def _team_day(key: DayKey, row: Counter[str]) -> TeamDay:
    amounts = (row["owned"], row["used"], row["borrowed"], row["lent"], idle(row))
    owned, used, borrowed, lent, unused = (round(amount / HOUR, 3) for amount in amounts)
    return TeamDay(*key, owned=owned, used=used, borrowed=borrowed, lent=lent, idle=unused)


def _day(name: str, sums: DaySums, now: int) -> Day:
    begin = int(datetime.fromisoformat(name).replace(tzinfo=UTC).timestamp()) * SECOND
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
    return Day(name, round((passed - lost) / HOUR, 3), round(passed / HOUR, 3), tuple(reasons))


def _names(first: str, now: int) -> Iterable[str]:
    day = datetime.fromisoformat(first).replace(tzinfo=UTC)
    while day.timestamp() * SECOND <= now:
        yield _name(day)
        day += timedelta(days=1)


def _name(day: datetime) -> str:
    return f"{day:%Y-%m-%d}"
