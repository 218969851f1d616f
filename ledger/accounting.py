"""PURE. Pieces of time and what was seen in them, as sums of accelerator-microseconds by day.

All sums are whole numbers, so that nothing is rounded before somebody reads it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cede.api.resources import FlavorResource
from ledger.claims import ClaimKey
from ledger.timeline import SECOND, Piece
from ledger.usage import JobKey, Pool, TeamUse

DAY = 86_400 * SECOND
TeamKey = tuple[str, FlavorResource]
Backlogs = Mapping[TeamKey, int]
"""Work that ran on borrowed quota and that a team's own quota has not had time for since."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which nobody saw what happened; microseconds since 1970."""

    begin: int
    end: int
    reason: str


@dataclass(slots=True)
class Entries:
    """What happened, by day (UTC, `2026-11-25`); the names of the sums are those of the columns."""

    pools: dict[tuple[str, FlavorResource], Counter[str]] = field(default_factory=dict)
    teams: dict[tuple[str, TeamKey], Counter[str]] = field(default_factory=dict)
    jobs: dict[tuple[str, JobKey], Counter[str]] = field(default_factory=dict)
    claims: dict[tuple[str, ClaimKey], Counter[str]] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    # afterwards, of the teams whose backlog changed
    backlogs: dict[TeamKey, int] = field(default_factory=dict)


def day_of(moment: int) -> str:
    return datetime.fromtimestamp(moment // SECOND, UTC).date().isoformat()


def account(pieces: Iterable[Piece], backlogs: Backlogs, entries: Entries) -> None:
    """Adds the sums of these pieces, which must follow those that `entries` has.

    `backlogs` are those before the first of them.
    """
    for day, pieces_of_day in by_day(pieces):
        seen_pieces = []
        for piece in pieces_of_day:
            if piece.span.use is None:
                entries.gaps.append(Gap(piece.begin, piece.end, piece.span.reason))
            else:
                seen_pieces.append(piece)
        _add_shared(entries, day, seen_pieces)
        _add_teams(entries, day, seen_pieces, backlogs)
    entries.gaps = joined(entries.gaps)


def by_day(pieces: Iterable[Piece]) -> Iterator[tuple[str, list[Piece]]]:
    """The pieces of every day, cut at midnight."""
    days: dict[int, list[Piece]] = {}
    for piece in pieces:
        start = piece.begin
        while start < piece.end:
            number = start // DAY
            stop = min(piece.end, (number + 1) * DAY)
            days.setdefault(number, []).append(Piece(start, stop, piece.span))
            start = stop
    for number, pieces_of_day in days.items():
        yield day_of(number * DAY), pieces_of_day


def _add_shared(entries: Entries, day: str, pieces: list[Piece]) -> None:
    """What is not of one team alone: capacity, what is lent, and claims."""
    for piece in pieces:
        use = piece.span.use
        assert use is not None
        length = piece.end - piece.begin
        for key, pool in use.pools.items():
            sums = entries.pools.setdefault((day, key), Counter())
            _add_pool(sums, pool, length)
        for name, quota in use.lent.items():
            for key, value in quota.items():
                if value:
                    sums = entries.teams.setdefault((day, (name, key)), Counter())
                    sums["lent"] += value * length
        for claim, value in piece.span.claims.items():
            sums = entries.claims.setdefault((day, claim), Counter())
            sums["taken_back"] += value * length


def _add_pool(sums: Counter[str], pool: Pool, length: int) -> None:
    sums["capacity"] += pool.capacity * length
    sums["unallocated"] += pool.unallocated * length
    sums["unallocated_lent"] += pool.unallocated_lent * length
    sums["excess"] += pool.excess * length


def _add_teams(entries: Entries, day: str, pieces: list[Piece], backlogs: Backlogs) -> None:
    for name, runs in _runs(pieces).items():
        for team, length in runs:
            for key in team.owned.keys() | team.available.keys() | team.used.keys():
                sums = entries.teams.setdefault((day, (name, key)), Counter())
                _add_team(sums, team, key, length)
                before = entries.backlogs.get((name, key), backlogs.get((name, key), 0))
                after, private = private_use(team, key, length, before)
                sums["private"] += private
                if after != before:
                    entries.backlogs[name, key] = after
            for job, use in team.jobs.items():
                sums = entries.jobs.setdefault((day, job), Counter())
                sums["used"] += use.used * length
                sums["borrowed"] += use.borrowed * length


def _runs(pieces: list[Piece]) -> dict[str, list[tuple[TeamUse, int]]]:
    """By team: what it used, and for how long, one after the other."""
    runs: dict[str, list[tuple[TeamUse, int]]] = {}
    for piece in pieces:
        assert piece.span.use is not None
        length = piece.end - piece.begin
        for name, team in piece.span.use.teams.items():
            runs_of_team = runs.setdefault(name, [])
            if runs_of_team and runs_of_team[-1][0] is team:
                length_before = runs_of_team.pop()[1]
                runs_of_team.append((team, length_before + length))
            else:
                runs_of_team.append((team, length))
    return runs


def _add_team(sums: Counter[str], team: TeamUse, key: FlavorResource, length: int) -> None:
    sums["owned"] += team.owned[key] * length
    sums["available"] += team.available[key] * length
    sums["used"] += team.used[key] * length
    sums["borrowed"] += team.borrowed[key] * length


def private_use(team: TeamUse, key: FlavorResource, length: int, backlog: int) -> tuple[int, int]:
    """(backlog afterwards, what a partition of the team's own would have run in this time).

    Work that runs on borrowed quota would have waited until the partition had room for it.
    """
    own = min(team.used[key], team.available[key])
    made_up = min(backlog, (team.available[key] - own) * length)
    return backlog + team.borrowed[key] * length - made_up, own * length + made_up


def joined(gaps: Iterable[Gap]) -> list[Gap]:
    """A gap that goes on is one gap, also over midnight."""
    result = list[Gap]()
    for gap in gaps:
        last = result[-1] if result else None
        if last and last.end == gap.begin and last.reason == gap.reason:
            result[-1] = Gap(last.begin, gap.end, gap.reason)
        else:
            result.append(gap)
    return result
