"""Tables of an earlier version become those of this one, with all rows, or stay as they are."""

import logging
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import BigInteger, Column, Connection, MetaData, inspect, select, text, update

from ledger import books, migrations
from ledger.accounting import Entries
from ledger.bookkeeper import Batch
from ledger.claims import TakeBack
from ledger.database import ANSWER_TIMEOUT_S, UPGRADE_TIMEOUT_S, Database, DatabaseError
from ledger.migrations import MIGRATIONS, upgrade
from ledger.tables import SCHEMA, Base, Book
from tests.builders.ledger import NOW

VERSION_1 = Path(__file__).with_name("version_1.sql").read_text()
WRITTEN = 1795603600000000
TABLES_OF_LOSSES = ("target_losses", "loss_book")


@pytest.fixture
def version_1(database: Database) -> Database:
    sql = VERSION_1 if database.dialect == "sqlite" else VERSION_1.replace(" WITHOUT ROWID", "")
    with database.transaction() as connection:
        for statement in sql.split(";\n"):
            connection.exec_driver_sql(statement)
    return database


def empty(postgres_url: str) -> Database:
    database = Database(postgres_url)
    with database.transaction() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    return database


def rows(database: Database) -> dict[str, list[Any]]:
    """By table."""
    tables = MetaData()
    with database.transaction() as connection:
        tables.reflect(connection)
        return {
            name: list(connection.execute(select(*table.columns)))
            for name, table in tables.tables.items()
        }


def version_of(database: Database) -> int:
    with database.transaction() as connection:
        return connection.execute(select(Book.schema)).scalar_one()


def test_every_version_has_a_migration_to_it() -> None:
    assert list(MIGRATIONS) == list(range(2, SCHEMA + 1))


def test_tables_of_version_1_are_upgraded_with_all_rows(
    version_1: Database, caplog: pytest.LogCaptureFixture
) -> None:
    before = rows(version_1)
    assert all(before.values())
    with caplog.at_level(logging.INFO, "ledger"):
        opened = books.open_books(version_1, NOW)
    assert [record.message for record in caplog.records] == ["tables upgraded"] * (SCHEMA - 1)
    assert opened.written == WRITTEN
    assert opened.backlogs == {("vision", ("p5", "nvidia.com/gpu")): 7}
    research = ("research", "research", "gpt", "vision")
    assert [*opened.take_backs.values()] == [TakeBack("take-back", "gpt", "job-2", *research, ())]
    after = rows(version_1)
    assert after.pop("book") == [(1, SCHEMA, 1795600000000000, WRITTEN)]
    del before["book"]
    assert after == before
    caplog.clear()
    assert books.open_books(version_1, NOW) == opened
    assert not caplog.records, "they are upgraded once"


def test_tables_of_version_1_without_losses_get_them(version_1: Database) -> None:
    before = rows(version_1)
    with version_1.transaction() as connection:
        for name in TABLES_OF_LOSSES:
            connection.execute(text(f"DROP TABLE {name}"))
    books.open_books(version_1, NOW)
    after = rows(version_1)
    assert after["target_losses"] == []
    kept = before.keys() - {"book", *TABLES_OF_LOSSES}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


@pytest.mark.parametrize("losses", [True, False])
def test_upgraded_tables_are_those_of_the_models(version_1: Database, *, losses: bool) -> None:
    with version_1.transaction() as connection:
        for name in TABLES_OF_LOSSES * (not losses):
            connection.execute(text(f"DROP TABLE {name}"))
    books.open_books(version_1, NOW)
    with version_1.transaction() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []
        # these it does not compare
        inspector = inspect(connection)
        for name, table in Base.metadata.tables.items():
            keys = inspector.get_pk_constraint(name)["constrained_columns"]
            assert keys == [column.name for column in table.primary_key.columns], name


def test_a_later_version_can_change_columns_and_keys(version_1: Database) -> None:
    """With the same migration in both databases."""

    def add_cluster(op: Operations) -> None:
        op.add_column("gaps", Column("seconds", BigInteger, nullable=False, server_default="0"))
        with op.batch_alter_table("team_days") as batch:
            batch.alter_column("private", new_column_name="kept")
            batch.drop_column("lent")
        with op.batch_alter_table("backlogs", recreate="always") as batch:
            batch.alter_column("amount", nullable=True)

    with version_1.exclusive() as connection:
        upgrade(connection, {**MIGRATIONS, SCHEMA + 1: add_cluster})
    after = rows(version_1)
    assert version_of(version_1) == SCHEMA + 1
    assert after["gaps"] == [(1795600000000000, 1795600060000000, "the ledger did not run", 0)]
    assert after["team_days"] == [
        ("2026-11-25", "vision", "p5", "nvidia.com/gpu", 40, 40, 30, 0, 2)
    ]
    assert after["backlogs"] == [("vision", "p5", "nvidia.com/gpu", 7)]


def test_a_migration_that_fails_leaves_all_as_it_was(version_1: Database) -> None:
    before = rows(version_1)

    def add_and_fail(op: Operations) -> None:
        op.add_column("gaps", Column("seconds", BigInteger))
        op.drop_column("book", "nothing")

    with (
        pytest.raises(DatabaseError, match=r"^[^\n]*nothing[^\n]*$"),
        version_1.exclusive() as connection,
    ):
        upgrade(connection, {**MIGRATIONS, SCHEMA + 1: add_and_fail})
    assert rows(version_1) == before


def test_a_statement_of_a_migration_may_take_hours_and_no_other_one(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pg8000 has no other place where a test sees how long it waits."""
    database = empty(postgres_url)
    timeouts = list[float]()

    def note_timeout(op: Operations) -> None:
        timeouts.append(timeout_of(op.get_bind()))

    books.open_books(database, NOW)
    monkeypatch.setattr(migrations, "MIGRATIONS", {**MIGRATIONS, SCHEMA: note_timeout})
    with database.transaction() as connection:
        connection.execute(update(Book).values(schema=SCHEMA - 1))
    books.open_books(database, NOW)
    with database.transaction() as connection:
        timeouts.append(timeout_of(connection))
    assert timeouts == [UPGRADE_TIMEOUT_S, ANSWER_TIMEOUT_S]
    assert version_of(database) == SCHEMA
    database.close()


def timeout_of(connection: Connection) -> float:
    driver: Any = connection.connection.driver_connection
    return float(driver._usock.gettimeout())


def test_two_processes_do_not_upgrade_at_the_same_time(version_1: Database) -> None:
    # with its password, which `name` has not
    other = Database(str(version_1._engine.url.render_as_string(hide_password=False)))
    with version_1.exclusive(), pytest.raises(DatabaseError, match="lock"):
        books.open_books(other, NOW)
    assert version_of(other) == 1
    assert books.open_books(other, NOW).written == WRITTEN
    other.close()


def test_who_only_reads_upgrades_nothing(version_1: Database) -> None:
    with pytest.raises(DatabaseError, match="start `python -m ledger` of this version"):
        books.verify(version_1, None)
    assert version_of(version_1) == 1


def test_a_process_whose_tables_were_upgraded_ends_and_says_why(database: Database) -> None:
    books.open_books(database, NOW)
    with database.transaction() as connection:
        connection.execute(update(Book).values(schema=SCHEMA + 1))
    cause = f"a newer version of Cede has upgraded its tables from version {SCHEMA} to {SCHEMA + 1}"
    with pytest.raises(books.Overtaken, match=cause):
        books.add(database, Batch(NOW, NOW + 1, Entries(), (), ()))
