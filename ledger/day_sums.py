"""Reads the sums of the last days from the database, and answers the page."""

import time
from collections import Counter

import msgspec
from aiohttp import web
from sqlalchemy import RowMapping, select

from cede.api.team_days import DAYS, PATH, TeamDays
from cede.kube.threads import run_in_thread
from ledger.accounting import Gap
from ledger.database import Database, DatabaseError
from ledger.days import DaySums, first_day, team_days
from ledger.tables import Book, GapRow, TeamDay
from ledger.timeline import SECOND

AMOUNTS = ("owned", "available", "used", "borrowed", "lent")


def read_days(database: Database, now: int) -> TeamDays:
    """`now`: microseconds since 1970. All of it is of one moment."""
    with database.transaction() as connection:
        database.check_schema(connection)
        book = connection.execute(select(Book.began, Book.written)).one()
        first = first_day(now, book.began, DAYS)
        # days sort like their texts
        rows = connection.execute(select(TeamDay.__table__).where(TeamDay.day >= first))
        teams = {
            (row["day"], row["team"], row["instance_type"], row["resource"]): _amounts(row)
            for row in rows.mappings()
        }
        gaps = connection.execute(select(GapRow.begin, GapRow.end, GapRow.reason))
        sums = DaySums(book.began, book.written, tuple(Gap(*row) for row in gaps), teams)
    return team_days(sums, first, now)


def _amounts(row: RowMapping) -> Counter[str]:
    return Counter({name: int(row[name]) for name in AMOUNTS})


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
