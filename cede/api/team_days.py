"""PURE. What teams owned, used, borrowed and lent, by day and by month, as the ledger sends it."""

from dataclasses import dataclass

PORT_NAME = "metrics"
PATH = "/v1/team-days"
DAYS = 30
MONTHS = 12
"""How many of each are sent."""


@dataclass(frozen=True)
class Day:
    # of UTC, 2026-11-25
    day: str
    # hours that the ledger saw, and those that had passed when it answered
    recorded_hours: float
    passed_hours: float
    # why it did not see the others
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class TeamDay:
    """In hours of one accelerator."""

    day: str
    team: str
    # the instance type
    type: str
    resource: str
    owned: float
    used: float
    borrowed: float
    lent: float
    idle: float


@dataclass(frozen=True)
class Statement:
    # of UTC, 2026-11
    month: str
    # by team, as `python -m ledger statement` prints it
    csv: str


@dataclass(frozen=True)
class TeamDays:
    # all days from the first to today, without a hole
    days: tuple[Day, ...] = ()
    teams: tuple[TeamDay, ...] = ()
    # of the last months, the newest first
    statements: tuple[Statement, ...] = ()
