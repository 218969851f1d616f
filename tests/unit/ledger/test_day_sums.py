"""The last days, from the database, as the page gets them."""

import aiohttp
import msgspec

from cede.api.team_days import PATH, TeamDays
from cede.kube import health
from ledger import books
from ledger.bookkeeper import Bookkeeper
from ledger.database import Database
from ledger.day_sums import read_days, route
from ledger.months import HOUR
from ledger.timeline import SECOND
from tests.builders.ledger import DAY, NOW, seen_at, workload


def play(database: Database, until: int) -> None:
    bookkeeper = Bookkeeper(books.open_books(database, NOW), NOW)
    for now in range(NOW, until + 1, 25 * SECOND):
        bookkeeper.look(seen_at(now, workloads=[workload("gpt", pods=4)]))
        if batch := bookkeeper.batch():
            books.add(database, batch)
            bookkeeper.has_written(batch)


def test_the_hours_of_a_day_are_those_of_the_statement(database: Database) -> None:
    play(database, NOW + HOUR // 4)
    shown = read_days(database, NOW + HOUR // 4)
    assert [day.day for day in shown.days] == [DAY]
    used = {team.team: team.used for team in shown.teams}
    assert sum(used.values()) > 0
    for team in shown.teams:
        assert team.used - team.borrowed + team.lent + team.idle <= team.owned + 0.01


async def test_it_is_answered_beside_the_health_checks(sqlite: Database) -> None:
    async with (
        health.serve(0, lambda: True, "127.0.0.1", [route(sqlite)]) as port,
        aiohttp.ClientSession() as session,
    ):
        async with session.get(f"http://127.0.0.1:{port}{PATH}") as response:
            assert response.status == 503
            assert "start `python -m ledger`" in await response.text()
        play(sqlite, NOW + HOUR // 4)
        async with session.get(f"http://127.0.0.1:{port}{PATH}") as response:
            assert response.status == 200
            assert msgspec.json.decode(await response.read(), type=TeamDays).days
