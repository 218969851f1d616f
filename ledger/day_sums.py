"""Reads the sums of the last days from the database, for `history` and for the page, which also
gets the statements."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
from aiohttp import web
from sqlalchemy import Connection, select

from cede.api.team_days import DAYS, PATH, TeamDays
from cede.api.use_history import DayUse, UseHistory
from cede.kube.threads import run_in_thread
from ledger import books
from ledger.database import Database, DatabaseError
from ledger.days import DaySums, begin_of, first_day, team_days
from ledger.month_sums import read_statements
from ledger.months import hours, time_of
from ledger.tables import TeamDay
from ledger.timeline import SECOND

AMOUNTS = ("owned", "available", "used", "borrowed", "lent")


def read_days(database: Database, now: int) -> TeamDays:
    """`now`: microseconds since 1970. All of it is of one moment."""
    with database.reading() as connection:
        book = books.extent(connection)
        first = first_day(now, book.began, DAYS)
        teams = {
            (row.day, row.team, row.instance_type, row.resource): _amounts(row)
            for row in _rows(connection, first)
        }
        missing = books.gaps(connection, begin_of(first), book.written)
        statements = read_statements(connection, book)
    days = team_days(DaySums(*book, missing, teams), first, now)
    return replace(days, statements=statements)


def _amounts(row: Any) -> Counter[str]:
    return Counter({name: int(getattr(row, name)) for name in AMOUNTS})


def read_history(database: Database, days: int) -> UseHistory:
    """What teams used on the last days that are in the books; the last day may not have ended."""
    with database.reading() as connection:
        began, end = books.extent(connection)
        first = first_day(end, began, days)
        begin = max(began, begin_of(first))
        uses = tuple(map(_day_use, _rows(connection, first)))
        missing = sum(gap.end - gap.begin for gap in books.gaps(connection, begin, end))
    return UseHistory(time_of(begin), time_of(end), Decimal(hours(missing)), uses)


def _day_use(row: Any) -> DayUse:
    amounts = (row.available, row.used, row.borrowed, row.lent)
    names = (row.day, row.team, row.instance_type, row.resource)
    return DayUse(*names, *(Decimal(hours(amount)) for amount in amounts))


def _rows(connection: Connection, first: str) -> Iterable[Any]:
    """Of the teams, from that day on, in order."""
    # days sort like their texts
    return connection.execute(
        select(*TeamDay.__table__.columns)
        .where(TeamDay.day >= first)
        .order_by(*TeamDay.__table__.primary_key)
    )


def route(database: Database) -> web.RouteDef:
    """Answers with TeamDays. Who may ask is decided before: by the API server's proxy, or by the
    page, and by the NetworkPolicy."""

    async def answer(_: web.Request) -> web.Response:
        now = int(time.time() * SECOND)
        try:
            days = await run_in_thread(lambda: read_days(database, now))
        except DatabaseError as error:
            return web.Response(status=503, text=f"{error}\n")
        return web.Response(body=msgspec.json.encode(days), content_type="application/json")

    return web.get(PATH, answer)
