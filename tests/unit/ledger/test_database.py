"""What a database refuses is one line that names it, with the cure; what it refused comes later."""

import gc
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text, update

from ledger import books
from ledger.accounting import Entries
from ledger.bookkeeper import Batch
from ledger.database import Database, DatabaseError
from ledger.tables import SCHEMA, Book
from tests.builders.ledger import NOW
from tests.harness.local_job import free_port

BATCH = Batch(NOW, NOW + 1, Entries(), (), ())


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("ledger.db", "'ledger.db' is no URL of a database: write the URL like sqlite:///"),
        ("mysql://root@host/db", "mysql://root@host/db is mysql: write the URL like"),
        ("postgresql+none://host/db", "has no driver here"),
    ],
)
def test_a_url_that_is_none_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(DatabaseError, match=r"^[^\n]*$") as raised:
        Database(url)
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("postgresql:/me:secret@host/db", "what was given is no URL of a database: write"),
        ("postgresql://me:secret@host:54x2/db", "what was given is no URL of a database: write"),
        ("postgresql://me:@secret@host/db", "has an @ that ends it: write it as %40"),
    ],
)
def test_a_password_in_a_url_that_is_none_is_in_no_message(url: str, complaint: str) -> None:
    with pytest.raises(DatabaseError, match=r"^[^\n]*$") as raised:
        Database(url)
    assert complaint in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_password_in_the_query_is_in_no_name() -> None:
    database = Database("postgresql://me@host/db?password=secret")
    assert database.name == "postgresql://me@host/db"


def test_a_password_is_in_no_message() -> None:
    database = Database(f"postgresql://me:secret@127.0.0.1:{free_port()}/db")
    with pytest.raises(DatabaseError) as raised:
        books.open_books(database, NOW)
    assert "secret" not in str(raised.value)
    assert str(raised.value).startswith("postgresql://me:***@127.0.0.1")
    assert "start it, or correct the URL" in str(raised.value)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_server_that_does_not_answer_is_given_up() -> None:
    """pg8000 leaves its socket to the garbage collection."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        database = Database(f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/db")
        with pytest.raises(DatabaseError, match="timed out: see why it does not answer"):
            books.open_books(database, NOW)
    gc.collect()


def test_tables_of_another_version_are_refused(database: Database) -> None:
    books.open_books(database, NOW)
    with database.transaction() as connection:
        connection.execute(update(Book).values(schema=SCHEMA + 1))
    complaint = rf"^[^\n]* have version {SCHEMA + 1}, and this program has {SCHEMA}: [^\n]*$"
    with pytest.raises(DatabaseError, match=complaint):
        books.open_books(database, NOW)
    with pytest.raises(DatabaseError, match="or a newer one; or restore a backup"):
        books.verify(database, None)


def test_who_only_reads_makes_no_tables(database: Database) -> None:
    with pytest.raises(DatabaseError, match="start `python -m ledger`"):
        books.verify(database, None)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are my notes, and no tables of anybody.\n" * 100)
    with pytest.raises(DatabaseError, match="name another file"):
        books.open_books(Database(f"sqlite:///{path}"), NOW)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="create its folder, or correct the URL"):
        books.open_books(Database(f"sqlite:///{tmp_path}/none/ledger.db"), NOW)


def test_a_locked_database_is_written_later(sqlite: Database, tmp_path: Path) -> None:
    books.open_books(sqlite, NOW)
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DatabaseError, match="locked: end the other program that has it open"):
        books.add(sqlite, BATCH)
    other.execute("COMMIT")
    other.close()
    books.add(sqlite, BATCH)
    assert books.open_books(sqlite, NOW).written == NOW + 1


def test_a_row_that_is_locked_is_written_later(postgres_url: str) -> None:
    with closing(Database(postgres_url)) as database, closing(Database(postgres_url)) as other:
        with database.transaction() as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
        books.open_books(database, NOW)
        with other.transaction() as lock:
            lock.execute(text("SELECT * FROM book FOR UPDATE"))
            with pytest.raises(DatabaseError, match=r"lock timeout: .*end the other transaction"):
                books.add(database, BATCH)
        books.add(database, BATCH)
        assert books.open_books(database, NOW).written == NOW + 1


def test_a_reader_does_not_stop_the_writer(sqlite: Database) -> None:
    """Such as a statement that takes long."""
    books.open_books(sqlite, NOW)
    with sqlite.transaction() as reader:
        reader.execute(text("SELECT * FROM book")).all()
        books.add(Database(sqlite.name), BATCH)


def test_a_full_disk_loses_nothing_and_is_written_later(sqlite: Database) -> None:
    books.open_books(sqlite, NOW)
    limit = text("PRAGMA max_page_count = 1")
    with sqlite.transaction() as connection:
        pages = connection.execute(limit).scalar_one()
    large = Entries(backlogs={(f"{number:0500}", ("p5", "gpu")): 1 for number in range(100)})
    batch = Batch(NOW, NOW + 1, large, (), ())
    with pytest.raises(DatabaseError, match="full: make room on its volume"):
        books.add(sqlite, batch)
    assert books.open_books(sqlite, NOW).written == NOW
    with sqlite.transaction() as connection:
        connection.execute(text(f"PRAGMA max_page_count = {pages + 1000}"))
    books.add(sqlite, batch)
    assert len(books.open_books(sqlite, NOW).backlogs) == 100


def test_what_is_written_outlives_a_loss_of_power(sqlite: Database) -> None:
    with sqlite.transaction() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar_one() == 2
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
