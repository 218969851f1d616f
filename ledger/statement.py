"""PURE. The statement of a month: its tables as CSV or JSON, with what was not recorded."""

import csv
import json
from collections.abc import Iterable
from io import StringIO

from cede.api.objects import Json
from ledger.accounting import Gap
from ledger.months import hours, time_of
from ledger.statement_tables import COLUMNS, TABLES, MonthSums, idle

NOT_BEGUN = "the books had not begun"


def as_csv(sums: MonthSums, table: str) -> str:
    """Hours of accelerators. Each row says how much of the month was recorded, and how much not."""
    recorded = {
        "month": sums.month.name,
        "recorded_hours": hours(sums.recorded),
        "not_recorded_hours": hours(sums.passed - sums.recorded),
    }
    text = StringIO()
    writer = csv.DictWriter(text, [*recorded, *COLUMNS[table]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(recorded | row for row in TABLES[table](sums))
    return text.getvalue()


def as_json(sums: MonthSums) -> str:
    """All tables, the gaps, and whether the sums are the capacity."""
    return json.dumps(
        {
            "month": sums.month.name,
            "recordedHours": hours(sums.recorded),
            "notRecordedHours": hours(sums.passed - sums.recorded),
            "writtenUntil": time_of(sums.written),
            "gaps": [_gap(gap) for gap in _all_gaps(sums)],
            "balance": list(balance(sums)),
            **{f"by{name.title()}": make(sums) for name, make in TABLES.items()},
        },
        indent=2,
    )


def balance(sums: MonthSums) -> Iterable[Json]:
    """The capacity of each kind, the sum of all that became of it, and the difference: 0."""
    for kind, pool in sums.pools.items():
        total = pool["unallocated"] - pool["unallocated_lent"] - pool["excess"]
        for (_, kind_of_team), values in sums.teams.items():
            if kind_of_team == kind:
                total += values["used"] + idle(values)
        yield {
            "instance_type": kind[0],
            "resource": kind[1],
            "capacity": hours(pool["capacity"]),
            "sum": hours(total),
            "difference": hours(pool["capacity"] - total),
        }


def _all_gaps(sums: MonthSums) -> Iterable[Gap]:
    """With the time before the books began."""
    begin = min(sums.began, sums.month.end)
    if sums.month.begin < begin:
        yield Gap(sums.month.begin, begin, NOT_BEGUN)
    yield from sums.gaps


def _gap(gap: Gap) -> Json:
    return {"begin": time_of(gap.begin), "end": time_of(gap.end), "reason": gap.reason}
