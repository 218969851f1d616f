"""PURE. A team's budget of accelerator-hours a month, and the ledger's note of what was used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from cede.api import names
from cede.api.crd_schema import rules
from cede.api.objects import Json, rfc3339, unix

MAX_HOURS = 1_000_000_000
MAX_NOTED_HOURS = 1000 * MAX_HOURS
"""More is no figure: 1,000 partitions of each accelerator would not use so much."""


class Budget(BaseModel):
    """Accelerator-hours that the team's jobs may use in a month (UTC), as the ledger counts them.

    Hours of its own quota count as borrowed ones do. A partition counts as its part of an
    accelerator.
    """

    softHours: int | None = Field(
        default=None,
        ge=0,
        le=MAX_HOURS,
        description="Accelerator-hours a month. When they are used, the condition says so.",
    )
    hardHours: int | None = Field(
        default=None,
        ge=0,
        le=MAX_HOURS,
        description=(
            "Accelerator-hours a month. When they are used, the team borrows nothing new until the "
            "month ends. Running jobs continue, and the team's own quota stays."
        ),
    )
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.softHours) || has(self.hardHours)",
                "the budget has no hours: give softHours, hardHours or both, or remove it",
            ),
            (
                "!has(self.softHours) || !has(self.hardHours) || self.softHours <= self.hardHours",
                "softHours is more than hardHours: nobody would be told before; lower it",
            ),
        )
    )


@dataclass(frozen=True, slots=True)
class MonthUse:
    """What teams have used in a month, as far as the ledger has seen it."""

    # such as 2026-11
    month: str
    # how far the ledger's books go (RFC 3339)
    until: str
    # the part of the month, up to then, that the ledger has not seen
    not_recorded_hours: Decimal = Decimal(0)
    # accelerator-hours by team, instance type and resource; what is absent is 0
    used: Mapping[str, Mapping[str, Mapping[str, Decimal]]] = field(default_factory=dict)

    def text(self) -> str:
        """Of the note."""
        return msgspec.json.encode(self, order="sorted").decode()


def parse_month_use(text: str) -> MonthUse | None:
    """None if the text is no such note: then nothing is known."""
    try:
        use = msgspec.json.decode(text, type=MonthUse)
        month = month_of(unix(use.until))
    except (ValueError, OverflowError, RecursionError):
        return None
    hours = [use.not_recorded_hours]
    for types in use.used.values():
        for resources in types.values():
            hours += resources.values()
    is_sane = all(value.is_finite() and 0 <= value <= MAX_NOTED_HOURS for value in hours)
    return use if is_sane and use.month == month else None


def noted_use(config_map: Json | None) -> MonthUse | None:
    """What the ConfigMap of the ledger's notes says; None without it."""
    data = (config_map or {}).get("data") or {}
    return parse_month_use(str(data.get(names.MONTH_USE, "")))


def month_of(time: float) -> str:
    """The month (UTC) of a time in Unix seconds, such as 2026-11."""
    return rfc3339(time)[:7]
