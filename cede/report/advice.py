"""PURE. What the use of days suggests about allocations, with the figures that it rests on."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.objects import condition
from cede.api.reasons import AdviceReason
from cede.api.use_history import DayUse, UseHistory
from cede.report.text import table

MIN_DAYS = 7
"""With fewer days there is no advice: a week has quiet days, and busy ones."""
MOST = Decimal("0.5")
ALWAYS = Decimal("0.9")
MUCH = Decimal("0.1")
COLUMNS = ("TEAM", "TYPE", "RESOURCE", "DAYS", "HAD", "USED", "BORROWED", "LENT")


@dataclass(frozen=True)
class Figures:
    """One team and one kind of accelerator over all days, in accelerator-hours."""

    team: str
    instance_type: str
    resource: str
    days: int
    available: Decimal
    used: Decimal
    borrowed: Decimal
    lent: Decimal
    # on how many days it borrowed
    borrowed_days: int


@dataclass(frozen=True)
class Finding:
    reason: AdviceReason
    team: str
    # the figures
    sentence: str
    # what an admin could do
    cure: str


@dataclass(frozen=True)
class Advice:
    # RFC 3339
    begin: str
    end: str
    recorded_hours: Decimal
    not_recorded_hours: Decimal
    figures: tuple[Figures, ...]
    findings: tuple[Finding, ...]
    # the teams with too few days for any advice
    too_short: tuple[str, ...]
    # what allocations say of a budget that is used
    budgets: tuple[str, ...]


def advise(history: UseHistory, allocations: Collection[ComputeAllocation] | None) -> Advice:
    """Only about allocations that there are; about all if None, because they cannot be read."""
    present = None if allocations is None else {item.metadata.name for item in allocations}
    rows: dict[tuple[str, str, str], list[DayUse]] = defaultdict(list)
    for day in history.days:
        if present is None or day.team in present:
            rows[day.team, day.instance_type, day.resource].append(day)
    figures = tuple(_figures(key, days) for key, days in sorted(rows.items()))
    return Advice(
        history.begin,
        history.end,
        history.recorded_hours,
        history.not_recorded_hours,
        figures,
        tuple(finding for entry in figures for finding in _findings(entry)),
        tuple(sorted({entry.team for entry in figures if entry.days < MIN_DAYS})),
        tuple(_used_budgets(allocations or ())),
    )


def _figures(key: tuple[str, str, str], days: Sequence[DayUse]) -> Figures:
    return Figures(
        *key,
        days=len(days),
        available=sum((day.available for day in days), start=Decimal(0)),
        used=sum((day.used for day in days), start=Decimal(0)),
        borrowed=sum((day.borrowed for day in days), start=Decimal(0)),
        lent=sum((day.lent for day in days), start=Decimal(0)),
        borrowed_days=sum(day.borrowed > 0 for day in days),
    )


def _findings(entry: Figures) -> Iterator[Finding]:
    if entry.days < MIN_DAYS:
        return
    what = f"{entry.resource} of {entry.instance_type}"
    lent = f"{_percent(entry.lent, entry.available)} of that was lent"
    if entry.available and not entry.used:
        yield Finding(
            AdviceReason.NEVER_USED,
            entry.team,
            f"{entry.team} had {_hours(entry.available)} of {what}, and used none on {entry.days} "
            f"days; {lent}",
            "lower its quota, or delete the allocation",
        )
    elif entry.available and entry.lent >= MOST * entry.available:
        yield Finding(
            AdviceReason.LENT_MOST_OF_THE_TIME,
            entry.team,
            f"{entry.team} had {_hours(entry.available)} of {what} on {entry.days} days; {lent}, "
            f"and {_percent(entry.used - entry.borrowed, entry.available)} was used by its own "
            "jobs",
            "lower its quota: it still borrows what it lacks",
        )
    is_always = entry.borrowed_days >= ALWAYS * entry.days
    if entry.borrowed and is_always and entry.borrowed >= MUCH * entry.used:
        yield Finding(
            AdviceReason.ALWAYS_BORROWS,
            entry.team,
            f"{entry.team} borrowed on {entry.borrowed_days} of {entry.days} days: "
            f"{_hours(entry.borrowed)} of {what}, beside {_hours(entry.available)} that it had; "
            "others may take that back at any time",
            "raise its quota, if these jobs must not be interrupted",
        )


def _used_budgets(allocations: Iterable[ComputeAllocation]) -> Iterator[str]:
    for allocation in allocations:
        budget: Mapping[str, object]
        budget = condition(allocation.status.conditions, names.WITHIN_BUDGET) or {}
        if budget.get("status") == "False":
            yield f"{budget['reason']}: {budget['message']}"


# --- text -----------------------------------------------------------------------------------------
def advice_lines(advice: Advice) -> Iterator[str]:
    yield (
        f"From {advice.begin} to {advice.end}: {_hours(advice.recorded_hours)} are recorded, and "
        f"{_hours(advice.not_recorded_hours)} are not"
    )
    if advice.figures:
        yield ""
        yield from table([COLUMNS, *map(_row, advice.figures)])
    yield ""
    yield "Advice" if advice.findings else "Advice: none"
    for finding in advice.findings:
        yield f"  {finding.reason}: {finding.sentence}: {finding.cure}"
    if advice.too_short:
        yield (
            f"  fewer than {MIN_DAYS} days are recorded of {', '.join(advice.too_short)}: that is "
            "no ground for advice"
        )
    if advice.budgets:
        yield ""
        yield "Budgets"
        yield from (f"  {sentence}" for sentence in advice.budgets)


def _row(entry: Figures) -> Sequence[str]:
    return (
        entry.team,
        entry.instance_type,
        entry.resource,
        str(entry.days),
        *map(_hours, (entry.available, entry.used, entry.borrowed, entry.lent)),
    )


def _hours(hours: Decimal) -> str:
    return f"{hours:.0f} h"


def _percent(part: Decimal, whole: Decimal) -> str:
    """Of nothing there is no part."""
    return f"{100 * part / whole:.0f} %" if whole else ""
