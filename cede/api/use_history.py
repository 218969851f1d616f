"""PURE. What teams used, borrowed and lent on each day, as the ledger prints it for others."""

from dataclasses import dataclass
from decimal import Decimal

import msgspec

from cede.api.objects import unix


@dataclass(frozen=True, slots=True)
class DayUse:
    """One team, one kind of accelerator, one day (UTC), in accelerator-hours."""

    # such as 2026-11-25
    day: str
    team: str
    instance_type: str
    resource: str
    # the quota that the team had
    available: Decimal
    used: Decimal
    borrowed: Decimal
    # of its quota, by other teams
    lent: Decimal


@dataclass(frozen=True, slots=True)
class UseHistory:
    """A period, and what the ledger saw in it."""

    # RFC 3339
    begin: str
    end: str
    # the part of the period that the ledger has not seen
    not_recorded_hours: Decimal
    days: tuple[DayUse, ...] = ()

    @property
    def recorded_hours(self) -> Decimal:
        return Decimal(unix(self.end) - unix(self.begin)) / 3600 - self.not_recorded_hours

    def text(self) -> str:
        """As JSON, a line for each day of a team."""
        rows = [msgspec.json.encode(day).decode() for day in self.days]
        head = msgspec.json.encode(
            {"begin": self.begin, "end": self.end, "not_recorded_hours": self.not_recorded_hours}
        ).decode()
        return f'{head[:-1]},"days":[\n' + ",\n".join(rows) + "\n]}"


def parse_history(text: str) -> UseHistory:
    """Raises ValueError."""
    try:
        history = msgspec.json.decode(text, type=UseHistory)
        amounts = [history.not_recorded_hours]
        for day in history.days:
            amounts += (day.available, day.used, day.borrowed, day.lent)
        if not all(amount.is_finite() and amount >= 0 for amount in amounts):
            raise ValueError("an amount of hours is below zero or no number")
        if unix(history.end) < unix(history.begin):
            raise ValueError("its end is before its begin")
    except ValueError as error:
        raise ValueError(f"this is not what `python -m ledger history` prints: {error}") from error
    return history
