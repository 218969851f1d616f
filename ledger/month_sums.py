"""Reads the sums of a month from the database."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, func, select

from cede.api.budget import MonthUse, month_of
from cede.api.team_days import MONTHS, Statement
from ledger import books, loss_rows
from ledger.accounting import TeamKey
from ledger.claims import ClaimKey
from ledger.database import Database
from ledger.losses import sums_of
from ledger.months import Month, hours, last_months, parse_month, time_of
from ledger.statement import as_csv
from ledger.statement_tables import MonthSums
from ledger.tables import ClaimDay, JobDay, PoolDay, TeamDay
from ledger.timeline import SECOND
from ledger.usage import JobKey

JOB = ("namespace", "job", "uid")
"""The columns that name a job."""
Table = type[PoolDay] | type[TeamDay] | type[JobDay] | type[ClaimDay]


def read_month(database: Database, month: Month) -> MonthSums:
    """All of it is of one moment."""
    with database.reading() as connection:
        book = books.extent(connection)
        jobs = _sums(connection, JobDay, month)
        claims = _sums(connection, ClaimDay, month)
        entries = loss_rows.read(connection, month)
        return replace(
            _shared_sums(connection, book, month),
            jobs={JobKey(*key): sums for key, sums in jobs.items()},
            claims={ClaimKey(*key): sums for key, sums in claims.items()},
            losses=entries,
            lost=sums_of(entries),
        )


def read_statements(connection: Connection, book: books.Extent) -> tuple[Statement, ...]:
    """By team, of the last months. The database adds up the jobs, which may be many."""
    statements = []
    for month in last_months(book.began, book.written, MONTHS):
        claims = {
            ClaimKey(team, "", "", "", *rest): sums
            for (team, *rest), sums in _sums(connection, ClaimDay, month, JOB).items()
        }
        lost = loss_rows.read_sums(connection, month)
        sums = replace(_shared_sums(connection, book, month), claims=claims, lost=lost)
        statements.append(Statement(month.name, as_csv(sums, "team")))
    return tuple(statements)


def _shared_sums(connection: Connection, book: books.Extent, month: Month) -> MonthSums:
    """Without what is of single jobs."""
    pools = _sums(connection, PoolDay, month)
    teams: dict[TeamKey, Counter[str]] = {
        (team, (type_name, resource)): sums
        for (team, type_name, resource), sums in _sums(connection, TeamDay, month).items()
    }
    return MonthSums(
        month=month,
        began=book.began,
        written=book.written,
        gaps=books.gaps(connection, month.begin, month.end),
        pools={(type_name, resource): sums for (type_name, resource), sums in pools.items()},
        teams=teams,
    )


def read_month_use(database: Database, teams: Collection[str]) -> MonthUse:
    """What these teams have used in the month in which the books end."""
    with database.reading() as connection:
        book = books.extent(connection)
        month = parse_month(month_of(book.written / SECOND))
        used: dict[str, dict[str, dict[str, Decimal]]] = {}
        for (team, type_name, resource), sums in _sums(connection, TeamDay, month).items():
            if team in teams and sums["used"]:
                by_type = used.setdefault(team, {}).setdefault(type_name, {})
                by_type[resource] = Decimal(hours(sums["used"]))
        gaps = books.gaps(connection, month.begin, month.end)
    period = MonthSums(month, book.began, book.written, gaps)
    missing = Decimal(hours(period.passed - period.recorded))
    return MonthUse(month.name, time_of(book.written), missing, used)


def _sums(
    connection: Connection, table: Table, month: Month, without: Collection[str] = ()
) -> dict[tuple[str, ...], Counter[str]]:
    """The sums of all days, by the rest of the key; also over the columns `without`."""
    columns = table.__table__.columns
    left_out = {"day", *without}
    keys = [column for column in columns if column.primary_key and column.name not in left_out]
    values = [column for column in columns if not column.primary_key]
    # days sort like their texts, so the index finds those of the month
    is_in_month = table.day.between(f"{month.name}-01", f"{month.name}-31")
    query: Any = select(*keys, *(func.sum(column) for column in values)).where(is_in_month)
    result = {}
    for row in connection.execute(query.group_by(*keys).order_by(*keys)):
        sums = zip(values, row[len(keys) :], strict=True)
        result[tuple(row[: len(keys)])] = Counter(
            {column.name: int(value) for column, value in sums}
        )
    return result
