"""PURE. The statement of a month: rows for a table, whose sums are the capacity."""

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from io import StringIO

from cede.api.objects import Json
from cede.api.resources import FlavorResource
from ledger.accounting import Gap, TeamKey
from ledger.claims import ClaimKey
from ledger.losses import Loss
from ledger.months import Month, hours, percent, time_of
from ledger.usage import JobKey

UNALLOCATED = "(unallocated)"
"""In place of a team: capacity that is in no team's quota."""
UNKNOWN = "unknown"
LOSSES = ("targets", "stopped", "lost_steps", "unknown_losses")
NOT_BEGUN = "the books had not begun"
Row = dict[str, str]


@dataclass(frozen=True)
class MonthSums:
    """What the books have of a month, in accelerator-microseconds."""

    month: Month
    # when the books begin, and how far they go; microseconds since 1970
    began: int
    written: int
    gaps: tuple[Gap, ...] = ()
    pools: Mapping[FlavorResource, Counter[str]] = field(default_factory=dict)
    teams: Mapping[TeamKey, Counter[str]] = field(default_factory=dict)
    jobs: Mapping[JobKey, Counter[str]] = field(default_factory=dict)
    claims: Mapping[ClaimKey, Counter[str]] = field(default_factory=dict)
    losses: tuple[Loss, ...] = ()

    @property
    def passed(self) -> int:
        """How much of the month has passed."""
        return max(0, min(self.month.end, self.written) - self.month.begin)

    @property
    def recorded(self) -> int:
        """How much of it somebody saw."""
        begin = max(self.began, self.month.begin)
        end = min(self.written, self.month.end)
        return max(0, end - begin) - sum(gap.end - gap.begin for gap in self.gaps)


# --- the tables -----------------------------------------------------------------------------------
def by_team(sums: MonthSums) -> list[Row]:
    """The column `available` sums up to the capacity, and used - borrowed + lent + idle to it;
    `claimed` sums up to what `taken_back` does."""
    teams = {key: Counter(values) for key, values in sums.teams.items()}
    for claim, values in sums.claims.items():
        for team, name in ((claim.team, "taken_back"), (claim.claimant, "claimed")):
            teams.setdefault((team, claim[-2:]), Counter())[name] += values["taken_back"]
    rows = [
        _row(
            {"team": team, "instance_type": kind[0], "resource": kind[1]},
            owned=values["owned"],
            available=values["available"],
            used=values["used"],
            borrowed=values["borrowed"],
            lent=values["lent"],
            idle=idle(values),
            taken_back=values["taken_back"],
            claimed=values["claimed"],
            gained=values["used"] - values["private"],
        )
        for (team, kind), values in sorted(teams.items())
        if any(values.values())
    ]
    for kind, values in sums.pools.items():
        lent = values["unallocated_lent"]
        rows.append(
            _row(
                {"team": UNALLOCATED, "instance_type": kind[0], "resource": kind[1]},
                owned=0,
                available=values["unallocated"],
                used=0,
                borrowed=0,
                lent=lent,
                idle=values["unallocated"] - lent,
                taken_back=0,
                claimed=0,
                gained=0,
            )
        )
    return rows


def idle(team: Mapping[str, int]) -> int:
    """The part of a team's quota that nobody used."""
    return team["available"] - (team["used"] - team["borrowed"]) - team["lent"]


def by_type(sums: MonthSums) -> list[Row]:
    """What sharing gained: the use, against that of private partitions."""
    rows = []
    for kind, pool in sums.pools.items():
        teams = Counter[str]()
        for (_, kind_of_team), values in sums.teams.items():
            if kind_of_team == kind:
                teams.update(values)
        capacity = pool["capacity"]
        row = _row(
            {"instance_type": kind[0], "resource": kind[1]},
            capacity=capacity,
            allocated=teams["available"],
            used=teams["used"],
            excess=pool["excess"],
            borrowed=teams["borrowed"],
            idle=capacity - teams["used"] + pool["excess"],
            private=teams["private"],
            gained=teams["used"] - teams["private"],
        )
        row["used_percent"] = percent(teams["used"], capacity)
        row["private_percent"] = percent(teams["private"], capacity)
        rows.append(row)
    return rows


def by_job(sums: MonthSums) -> list[Row]:
    """What a job missed stands in the first of its rows; it may have had several classes."""
    jobs = {job: Counter(values) for job, values in sums.jobs.items()}
    first_rows = dict[tuple[str, ...], JobKey]()
    for job in jobs:
        first_rows.setdefault((job.uid, *job[-2:]), job)
    for claim, values in sums.claims.items():
        waiting = JobKey(claim.team, claim.namespace, claim.job, claim.uid, "", *claim[-2:])
        job = first_rows.setdefault((claim.uid, *claim[-2:]), waiting)
        jobs.setdefault(job, Counter()).update(values)
    return [
        _row(
            job._asdict(),
            used=values["used"],
            borrowed=values["borrowed"],
            taken_back=values["taken_back"],
        )
        for job, values in sorted(jobs.items())
    ]


def by_class(sums: MonthSums) -> list[Row]:
    classes: dict[tuple[str, ...], Counter[str]] = {}
    for job, values in sums.jobs.items():
        key = (job.priority_class, job.team, *job[-2:])
        classes.setdefault(key, Counter()).update(values)
    names = ("priority_class", "team", "instance_type", "resource")
    return [
        _row(dict(zip(names, key, strict=True)), used=values["used"], borrowed=values["borrowed"])
        for key, values in sorted(classes.items())
    ]


def by_claim(sums: MonthSums) -> list[Row]:
    """What the jobs of one team missed by the claims of another."""
    claims = Counter[tuple[str, ...]]()
    for claim, values in sums.claims.items():
        claims[claim.team, claim.claimant, *claim[-2:]] += values["taken_back"]
    names = ("team", "claimant", "instance_type", "resource")
    return [
        _row(dict(zip(names, key, strict=True)), taken_back=value)
        for key, value in sorted(claims.items())
    ]


def by_claimant(sums: MonthSums) -> list[Row]:
    """What was lost by the claims of one job. A loss that is not known is counted apart."""
    claimants: dict[tuple[str, str], Counter[str]] = {}
    for loss in sums.losses:
        values = claimants.setdefault((loss.claimant, loss.claimant_job), Counter())
        values["targets"] += 1
        values["stopped"] += loss.how == "Stop"
        values["lost_steps"] += loss.lost_steps or 0
        values["unknown_losses"] += loss.lost_steps is None
    return [_with_counts(*key, values) for key, values in sorted(claimants.items())]


def _with_counts(team: str, job: str, values: Counter[str]) -> Row:
    counts = {name: str(values[name]) for name in LOSSES}
    return {"claimant": team, "claimant_job": job, **counts}


def by_loss(sums: MonthSums) -> list[Row]:
    """A row for each job of which a take-back took something. What is not known is no 0."""
    return [_with_unknowns(loss) for loss in sums.losses]


def _with_unknowns(loss: Loss) -> Row:
    return {name: UNKNOWN if value is None else str(value) for name, value in asdict(loss).items()}


TABLES: dict[str, Callable[[MonthSums], list[Row]]] = {
    "team": by_team,
    "type": by_type,
    "job": by_job,
    "class": by_class,
    "claim": by_claim,
    "claimant": by_claimant,
    "loss": by_loss,
}
COLUMNS: dict[str, tuple[str, ...]] = {
    "team": (
        *("team", "instance_type", "resource", "owned", "available", "used", "borrowed", "lent"),
        *("idle", "taken_back", "claimed", "gained"),
    ),
    "type": (
        *("instance_type", "resource", "capacity", "allocated", "used", "excess", "borrowed"),
        *("idle", "private", "gained", "used_percent", "private_percent"),
    ),
    "job": (*JobKey._fields, "used", "borrowed", "taken_back"),
    "class": ("priority_class", "team", "instance_type", "resource", "used", "borrowed"),
    "claim": ("team", "claimant", "instance_type", "resource", "taken_back"),
    "claimant": ("claimant", "claimant_job", *LOSSES),
    "loss": tuple(entry.name for entry in fields(Loss)),
}


def _row(names: Mapping[str, str], **sums: int) -> Row:
    return dict(names) | {name: hours(value) for name, value in sums.items()}


# --- as text --------------------------------------------------------------------------------------
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
