"""Books whose opening takes longer than a pass."""

import threading

import pytest

from ledger import books, controller
from ledger.bookkeeper import Books
from ledger.database import Database
from tests.builders.ledger import KIND
from tests.harness.running_ledger import ledger_world


async def test_passes_end_while_the_tables_are_upgraded(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the leader would end as one that is stalled, and begin the upgrade again."""
    is_upgraded = threading.Event()
    opened = list[Books]()

    def open_late(database: Database, now: int) -> Books:
        is_upgraded.wait()
        opened.append(open_books(database, now))
        return opened[-1]

    open_books = books.open_books
    monkeypatch.setattr(books, "open_books", open_late)
    monkeypatch.setattr(controller, "OPENING_S", 0.0)
    async with ledger_world(sqlite) as world, world.running():
        await world.passes(40)
        assert opened == []
        is_upgraded.set()
        monkeypatch.setattr(controller, "OPENING_S", None)
        await world.passes(40)
        assert len(opened) == 1
        # the last pass may know the server's objects of a second before
        recorded_s = world.month.pools[KIND]["capacity"] / 16 / 1e6
        assert recorded_s == pytest.approx(40, abs=1)
