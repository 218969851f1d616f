"""The ledger's database: SQLite or PostgreSQL, its tables, and its errors in one line each."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from ledger.tables import SCHEMA, Book

LOCK_TIMEOUT_S = 1
"""No pass waits longer for a database that somebody else has locked."""
ANSWER_TIMEOUT_S = 5
"""No pass waits longer for a server that does not answer."""
UPGRADE_TIMEOUT_S = 24 * 3600
"""No statement of an upgrade takes longer, which may write a large table again."""
OPENING_LOCK = 0x63656465
"""The number of an advisory lock of PostgreSQL; any that others do not use."""
CURES = {
    "disk is full": "make room on its volume; nothing is lost while the ledger runs",
    "locked": "end the other program that has it open; nothing is lost while the ledger runs",
    "lock timeout": "wait if the ledger upgrades its tables, else end the other transaction",
    "timed out": "see why it does not answer; nothing is lost while the ledger runs",
    "Can't create a connection": "start it, or correct the URL; nothing is lost meanwhile",
    "no such table": "start `python -m ledger`, which makes the tables, or correct the URL",
    "does not exist": "create it, or start `python -m ledger`, which makes the tables",
    "readonly": "give the ledger's user the right to write it",
    "unable to open": "create its folder, or correct the URL",
    "authentication": "correct the user and the password in the URL",
    "not a database": "name another file; this one is no database of the ledger",
    "malformed": "restore its last backup",
}
"""By a part of the reason."""


class DatabaseError(Exception):
    """The database cannot be read or written, in one line with the cure."""


class Database:
    """Raises DatabaseError for whatever the database refuses.

    `answer_timeout_s`: how long a server may take for a statement.
    """

    def __init__(self, url: str, answer_timeout_s: int = ANSWER_TIMEOUT_S) -> None:
        self._url = url
        form = "write the URL like sqlite:////data/ledger.db or postgresql://user@host/name"
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError) as error:
            raise DatabaseError(f"{_shown(url)} is no URL of a database: {form}") from error
        if "@" in (parsed.host or ""):
            # a part of the password would be taken for the host, and would be in every message
            raise DatabaseError("the password in the URL has an @ that ends it: write it as %40")
        # its query may hold a password too
        self.name = parsed.set(query={}).render_as_string(hide_password=True)
        self.dialect = parsed.get_backend_name()
        if self.dialect not in ("sqlite", "postgresql"):
            raise DatabaseError(f"{self.name} is {self.dialect}: {form}")
        # of the drivers for PostgreSQL, this one has a licence that Cede's images may have
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+pg8000")
        timeout_s = LOCK_TIMEOUT_S if self.dialect == "sqlite" else answer_timeout_s
        try:
            self._engine = create_engine(
                parsed, connect_args={"timeout": timeout_s}, pool_pre_ping=True
            )
        except (NoSuchModuleError, ImportError) as error:
            raise DatabaseError(f"{self.name} has no driver here ({error}): {form}") from error
        event.listen(self._engine, "connect", self._prepare)

    def _prepare(self, connection: Any, _: object) -> None:
        """Readers do not stop the writer, and what is written outlives a loss of power."""
        cursor = connection.cursor()
        if self.dialect == "sqlite":
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=FULL")
        else:
            cursor.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'")
            connection.commit()
        cursor.close()

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All of it is written, or nothing."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            reason = _reason(error)
            cure = next((cure for part, cure in CURES.items() if part in reason), "")
            raise DatabaseError(f"{self.name}: {reason}: {cure or 'see its own log'}") from error

    @contextmanager
    def exclusive(self) -> Iterator[Connection]:
        """A transaction of which there is one at a time, in which also tables are changed: other
        processes that open the books wait, or give up."""
        with self.transaction() as connection:
            if self.dialect == "sqlite":
                # without it, the driver begins a transaction only before rows are written
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                connection.execute(select(func.pg_advisory_xact_lock(OPENING_LOCK)))
            yield connection

    @contextmanager
    def upgrading(self) -> Iterator[Connection]:
        """As `exclusive`, on a connection of its own, whose statements may take hours."""
        patient = Database(self._url, UPGRADE_TIMEOUT_S)
        try:
            with patient.exclusive() as connection:
                yield connection
        finally:
            patient.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction on tables that this version wrote."""
        with self.transaction() as connection:
            self.check_schema(connection)
            yield connection

    def check_schema(self, connection: Connection) -> None:
        """Raises DatabaseError if another version wrote the tables, or nobody did."""
        schema = connection.execute(select(Book.schema)).scalar_one_or_none()
        if schema is None:
            raise DatabaseError(f"{self.name}: it is empty: start `python -m ledger`")
        if schema != SCHEMA:
            cure = "start `python -m ledger` of this version, which changes them"
            if schema > SCHEMA:
                cure = (
                    "run the version of Cede that wrote them, or a newer one; or restore a backup "
                    "from before its start"
                )
            raise DatabaseError(
                f"{self.name}: its tables have version {schema}, and this program has {SCHEMA}: "
                f"{cure}"
            )


def _shown(url: str) -> str:
    """Without a password, wherever in the text it is."""
    return "what was given" if "@" in url or "?" in url else repr(url)


def _reason(error: Exception) -> str:
    """The database's own words, in one line."""
    origin = getattr(error, "orig", None) or error
    details = origin.args[0] if origin.args else ""
    # pg8000 gives the fields of the server's message
    text = details.get("M", "") if isinstance(details, dict) else str(origin)
    return (text.splitlines() or [type(error).__name__])[0]
