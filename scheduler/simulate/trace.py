"""PURE. Reads a trace of jobs and the quotas of its teams from CSV text."""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from typing import TypeVar

from scheduler.simulate.objects import JobSpec, TeamQuota

T = TypeVar("T")
MAX_COMPLAINTS = 10
JOB_COLUMNS: dict[str, tuple[str, ...]] = {
    "submit": ("submit", "submit_s"),
    "duration": ("duration", "duration_s"),
    "accelerators": ("accelerators", "gpus"),
    "team": ("team",),
}
"""The columns that every trace has, each with its names."""
TEAM_COLUMNS: dict[str, tuple[str, ...]] = {
    "team": ("team",),
    "quota": ("quota", "nominal_gpus"),
}


class TraceError(ValueError):
    """Lines that cannot be read: file, line, what it is, what it should be."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a CSV file."""

    file: str
    line: int
    values: dict[str, str]
    columns: dict[str, tuple[str, ...]]

    def text(self, name: str, default: str = "") -> str:
        for column in self.columns.get(name, (name,)):
            if self.values.get(column):
                return self.values[column].strip()
        return default

    def number(self, name: str, *, least: float, default: str = "") -> float:
        """Raises TraceError if it is no number, or below `least`."""
        text = self.text(name, default)
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value < float("inf"):
            raise self.error(f"{name} is {text!r}: it must be a number of at least {least:g}")
        return value

    def whole(self, name: str, *, least: int, default: str = "") -> int:
        value = self.number(name, least=least, default=default)
        if value != int(value):
            raise self.error(f"{name} is {value}: it must be a whole number")
        return int(value)

    def error(self, complaint: str) -> TraceError:
        return TraceError(f"{self.file}:{self.line}: {complaint}")


def read_teams(text: str, file: str) -> list[TeamQuota]:
    """Columns: team, quota; optional: weight, borrowing_limit, lending_limit. Raises TraceError."""
    teams = _read(text, file, TEAM_COLUMNS, _team)
    names = [team.name for team in teams]
    for name in names:
        if names.count(name) > 1:
            raise TraceError(f"{file}: team {name!r} has two lines: it must have one")
    if not sum(team.nominal for team in teams):
        raise TraceError(f"{file}: the quotas sum up to 0: at least one team must own something")
    return teams


def _team(row: Row) -> TeamQuota:
    return TeamQuota(
        name=row.text("team"),
        nominal=row.whole("quota", least=0),
        weight=row.number("weight", least=0, default="1"),
        borrowing_limit=_limit(row, "borrowing_limit"),
        lending_limit=_limit(row, "lending_limit"),
    )


def _limit(row: Row, name: str) -> int | None:
    return row.whole(name, least=0) if row.text(name) else None


def read_jobs(text: str, file: str, teams: list[TeamQuota]) -> list[JobSpec]:
    """Columns: submit (seconds), duration (seconds), accelerators, team; optional: job_id,
    priority. In order of submission. Raises TraceError."""
    names = {team.name for team in teams}
    jobs = _read(text, file, JOB_COLUMNS, lambda row: _job(row, names))
    if not jobs:
        raise TraceError(f"{file}: it has no jobs: it must have at least one line below the header")
    return sorted(jobs, key=lambda job: job.submit)


def _job(row: Row, teams: set[str]) -> JobSpec:
    team = row.text("team")
    if team not in teams:
        raise row.error(f"team is {team!r}: it must be one of {', '.join(sorted(teams))}")
    return JobSpec(
        name=row.text("job_id", f"job-{row.line}"),
        team=team,
        submit=row.number("submit", least=0),
        accelerators=row.whole("accelerators", least=1),
        # a job that ends at once is one that takes a second
        duration=max(1.0, row.number("duration", least=0)),
        priority=row.whole("priority", least=-(2**31), default="50"),
    )


def _read(
    text: str, file: str, columns: dict[str, tuple[str, ...]], parse: Callable[[Row], T]
) -> list[T]:
    """Every line, or all complaints about lines at once."""
    complaints = list[str]()
    values = list[T]()
    for row in _rows(text, file, columns):
        try:
            values.append(parse(row))
        except TraceError as error:
            complaints.append(str(error))
        if len(complaints) == MAX_COMPLAINTS:
            complaints.append(f"{file}: more lines may be wrong")
            break
    if complaints:
        raise TraceError("\n".join(complaints))
    return values


def _rows(text: str, file: str, columns: dict[str, tuple[str, ...]]) -> Iterator[Row]:
    reader = csv.DictReader(StringIO(text), strict=True)
    header = reader.fieldnames or ()
    missing = [name for name, names in columns.items() if not set(names) & set(header)]
    if missing:
        raise TraceError(
            f"{file}:1: the header is {','.join(header)!r}: it lacks {', '.join(missing)}"
        )
    try:
        for values in reader:
            line = reader.line_num
            texts = {name: value or "" for name, value in values.items() if name is not None}
            yield Row(file, line, texts, columns)
    except csv.Error as error:
        raise TraceError(f"{file}:{reader.line_num}: {error}: it must be CSV") from error
