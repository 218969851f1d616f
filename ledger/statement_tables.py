"""PURE. The tables of a month: rows whose sums are the capacity."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cede.api.resources import FlavorResource
from ledger.accounting import Gap, TeamKey
from ledger.claims import ClaimKey
from ledger.losses import Loss, LossKey
from ledger.months import Month, hours, percent
from ledger.usage import JobKey

UNALLOCATED = "(unallocated)"
"""In place of a team: capacity that is in no team's quota."""
UNKNOWN = "unknown"
LOST = ("lost", "unknown_losses")
CLAIMANT = (
    *("targets", "stopped", "lost_steps", "unknown_steps"),
    *("lost_hours", "unknown_losses"),
)
LOSS = (
    *("released", "cession", "team", "job", "claimant", "claimant_job", "how"),
    *("from_size", "to_size", "lost_steps"),
)
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
    # what they sum up to
    lost: Mapping[LossKey, Counter[str]] = field(default_factory=dict)

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
    for loss, values in sums.lost.items():
        teams.setdefault((loss.team, loss[-2:]), Counter()).update(values)
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
        | _lost(values)
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
            | _lost(Counter())
        )
    return rows


def idle(team: Mapping[str, int]) -> int:
    """The part of a team's quota that nobody used."""
    return team["available"] - (team["used"] - team["borrowed"]) - team["lent"]


def by_type(sums: MonthSums) -> list[Row]:
    """What sharing gained: the use, against that of private partitions."""
    lost: dict[FlavorResource, Counter[str]] = {}
    for loss, values in sums.lost.items():
        lost.setdefault(loss[-2:], Counter()).update(values)
    rows = []
    for kind in sorted({*sums.pools, *lost}):
        pool = sums.pools.get(kind, Counter())
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
        rows.append(row | _lost(lost.get(kind, Counter())))
    return rows


def by_job(sums: MonthSums) -> list[Row]:
    return [
        _row(
            job._asdict(),
            used=values["used"],
            borrowed=values["borrowed"],
            taken_back=values["taken_back"],
        )
        | _lost(values)
        for job, values in sorted(_jobs(sums).items())
    ]


def by_class(sums: MonthSums) -> list[Row]:
    classes: dict[tuple[str, ...], Counter[str]] = {}
    for job, values in _jobs(sums).items():
        key = (job.priority_class, job.team, *job[-2:])
        classes.setdefault(key, Counter()).update(values)
    names = ("priority_class", "team", "instance_type", "resource")
    return [
        _row(
            dict(zip(names, key, strict=True)),
            used=values["used"],
            borrowed=values["borrowed"],
            taken_back=values["taken_back"],
        )
        | _lost(values)
        for key, values in sorted(classes.items())
    ]


def _jobs(sums: MonthSums) -> dict[JobKey, Counter[str]]:
    """What a job missed and lost is in the first of its rows; it may have had several classes."""
    jobs = {job: Counter(values) for job, values in sums.jobs.items()}
    first_rows = dict[tuple[str, ...], JobKey]()
    for job in jobs:
        first_rows.setdefault(_identity(job), job)

    def add(job: JobKey, values: Counter[str]) -> None:
        row = first_rows.setdefault(_identity(job), job)
        jobs.setdefault(row, Counter()).update(values)

    for claim, values in sums.claims.items():
        add(JobKey(claim.team, claim.namespace, claim.job, claim.uid, "", *claim[-2:]), values)
    for loss, values in sums.lost.items():
        namespace, _, name = loss.job.partition("/")
        add(JobKey(loss.team, namespace, name, loss.uid, "", *loss[-2:]), values)
    return jobs


def _identity(job: JobKey) -> tuple[str, ...]:
    """On one kind of accelerator. Losses that earlier versions recorded have no uid."""
    names = (job.uid,) if job.uid else (job.team, job.namespace, job.job)
    return (*names, *job[-2:])


def by_claim(sums: MonthSums) -> list[Row]:
    """What the jobs of one team missed and lost by the claims of another."""
    claims: dict[tuple[str, ...], Counter[str]] = {}
    parts: Iterable[tuple[ClaimKey | LossKey, Counter[str]]]
    parts = (*sums.claims.items(), *sums.lost.items())
    for key, values in parts:
        pair = (key.team, key.claimant, *key[-2:])
        claims.setdefault(pair, Counter()).update(values)
    names = ("team", "claimant", "instance_type", "resource")
    return [
        _row(dict(zip(names, pair, strict=True)), taken_back=values["taken_back"]) | _lost(values)
        for pair, values in sorted(claims.items())
    ]


def by_claimant(sums: MonthSums) -> list[Row]:
    """What was lost by the claims of one job."""
    claimants: dict[tuple[str, str], Counter[str]] = {}
    for loss in sums.losses:
        values = claimants.setdefault((loss.claimant, loss.claimant_job), Counter())
        values["targets"] += 1
        values["stopped"] += loss.how == "Stop"
        values["lost_steps"] += loss.lost_steps or 0
        values["unknown_steps"] += int(loss.lost_steps is None)
        values["lost"] += sum(work.lost or 0 for work in loss.works)
        values["unknown_losses"] += int(loss.lost is None)
    return [_claimant(*key, values) for key, values in sorted(claimants.items())]


def _claimant(team: str, job: str, values: Counter[str]) -> Row:
    is_unknown = values["unknown_steps"] and not values["lost_steps"]
    return {
        "claimant": team,
        "claimant_job": job,
        "targets": str(values["targets"]),
        "stopped": str(values["stopped"]),
        "lost_steps": UNKNOWN if is_unknown else str(values["lost_steps"]),
        "unknown_steps": str(values["unknown_steps"]),
        "lost_hours": _lost(values)["lost"],
        "unknown_losses": str(values["unknown_losses"]),
    }


def by_loss(sums: MonthSums) -> list[Row]:
    """A row for each job of which a take-back took something."""
    return [_loss(loss) for loss in sums.losses]


def _loss(loss: Loss) -> Row:
    row = {name: getattr(loss, name) for name in LOSS}
    row["lost_hours"] = None if loss.lost is None else hours(loss.lost)
    return {name: UNKNOWN if value is None else str(value) for name, value in row.items()}


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
        *("idle", "taken_back", "claimed", "gained", *LOST),
    ),
    "type": (
        *("instance_type", "resource", "capacity", "allocated", "used", "excess", "borrowed"),
        *("idle", "private", "gained", "used_percent", "private_percent", *LOST),
    ),
    "job": (*JobKey._fields, "used", "borrowed", "taken_back", *LOST),
    "class": (
        *("priority_class", "team", "instance_type", "resource"),
        *("used", "borrowed", "taken_back", *LOST),
    ),
    "claim": ("team", "claimant", "instance_type", "resource", "taken_back", *LOST),
    "claimant": ("claimant", "claimant_job", *CLAIMANT),
    "loss": (*LOSS, "lost_hours"),
}


def _row(names: Mapping[str, str], **sums: int) -> Row:
    return dict(names) | {name: hours(value) for name, value in sums.items()}


def _lost(values: Counter[str]) -> Row:
    """The hours that are known. What is not known is never 0."""
    is_unknown = values["unknown_losses"] and not values["lost"]
    return {
        "lost": UNKNOWN if is_unknown else hours(values["lost"]),
        "unknown_losses": str(values["unknown_losses"]),
    }
