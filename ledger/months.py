"""PURE. Months of the calendar (UTC), and hours as people read them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from cede.api.budget import month_of
from cede.api.objects import rfc3339
from ledger.timeline import SECOND

HOUR = 3600 * SECOND
PLACES = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Month:
    """`name` is like `2026-11`; the moments are microseconds since 1970."""

    name: str
    begin: int
    end: int


def parse_month(text: str) -> Month:
    """Raises ValueError."""
    try:
        begin = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
        years, month = divmod(begin.month, 12)
        end = begin.replace(year=begin.year + years, month=month + 1)
    except ValueError as error:
        raise ValueError(f"{text!r} is no month: write it like 2026-11") from error
    return Month(f"{begin:%Y-%m}", _moment(begin), _moment(end))


def last_months(began: int, end: int, count: int) -> tuple[Month, ...]:
    """At most so many up to the month of `end`, the newest first, and none that ended before
    `began`."""
    months = [_month_at(end)]
    while len(months) < count and months[-1].begin > began:
        months.append(_month_at(months[-1].begin - SECOND))
    return tuple(months)


def _month_at(moment: int) -> Month:
    return parse_month(month_of(moment / SECOND))


def hours(microseconds: int) -> str:
    """Rounded to a millionth of an hour."""
    return f"{(Decimal(microseconds) / HOUR).quantize(PLACES):f}"


def time_of(moment: int) -> str:
    """RFC 3339."""
    return rfc3339(moment / SECOND)


def percent(part: int, whole: int) -> str:
    """Of nothing there is no part."""
    return f"{(Decimal(100 * part) / whole).quantize(Decimal('0.01')):f}" if whole else ""


def _moment(time: datetime) -> int:
    return int(time.timestamp()) * SECOND
