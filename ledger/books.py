"""The books in the database: where they end, and how something is added to them."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, delete, func, insert, inspect, select, update
from sqlalchemy.dialects import postgresql, sqlite

from cede.api.audit_chain import AuditRecord, Head, complaint
from cede.api.objects import CESSIONS
from ledger import loss_rows
from ledger.accounting import Backlogs, Entries, Gap
from ledger.bookkeeper import Batch, Books
from ledger.changes import ObjectName
from ledger.claims import Key, TakeBack
from ledger.database import Database, DatabaseError
from ledger.tables import (
    SCHEMA,
    AuditRow,
    Backlog,
    Base,
    Book,
    ClaimDay,
    GapRow,
    JobDay,
    OpenTakeBack,
    PoolDay,
    TeamDay,
)

RECALLED_CESSIONS = 5000
"""Records of Cessions that are read at the start. The scheduler keeps at most 1,000 Cessions."""
ROWS_OF_A_PAGE = 1000
K = TypeVar("K", bound=tuple[str, ...])
DayTable = type[PoolDay] | type[TeamDay] | type[JobDay] | type[ClaimDay]


class Extent(NamedTuple):
    """Where the books begin, and how far they go; microseconds since 1970."""

    began: int
    written: int


class Overtaken(DatabaseError):
    """Another process has added to the books, or has upgraded their tables, since we read them."""


def open_books(database: Database, now: int) -> Books:
    """The books; if there are none, they begin at `now`. Tables of an earlier version are upgraded
    to this one."""
    with database.exclusive() as connection:
        if not _has_books(connection):
            Base.metadata.create_all(connection)
            row = {"id": 1, "schema": SCHEMA, "began": now, "written": now}
            connection.execute(insert(Book), row)
        is_earlier = connection.execute(select(Book.schema)).scalar_one() < SCHEMA
    if is_earlier:
        # alembic takes 12 MiB of memory, and only an upgrade needs it
        from ledger import migrations

        with database.upgrading() as connection:
            migrations.upgrade(connection, migrations.MIGRATIONS)
    while (opened := _read_or_catch_up(database)) is None:
        pass
    return opened


def _has_books(connection: Connection) -> bool:
    has_tables = inspect(connection).has_table(Book.__tablename__)
    return has_tables and connection.execute(select(Book.id)).scalar_one_or_none() is not None


def _read_or_catch_up(database: Database) -> Books | None:
    """None if a page of losses was missing, which is written now."""
    with database.reading() as connection:
        # read first: who writes afterwards makes our first batch Overtaken
        written = connection.execute(select(Book.written)).scalar_one()
        if loss_rows.catch_up(connection):
            return None
        return Books(
            written,
            _backlogs(connection),
            _take_backs(connection),
            _head(connection),
            _recorded(connection),
        )


def extent(connection: Connection) -> Extent:
    return Extent(*connection.execute(select(Book.began, Book.written)).one())


def gaps(connection: Connection, begin: int, end: int) -> tuple[Gap, ...]:
    """In order; those between the two moments, cut at them."""
    rows = connection.execute(
        select(GapRow.begin, GapRow.end, GapRow.reason)
        .where(GapRow.begin < end, GapRow.end > begin)
        .order_by(GapRow.begin)
    )
    return tuple(Gap(max(first, begin), min(last, end), reason) for first, last, reason in rows)


def verify(database: Database, head: Head | None) -> tuple[str, Head | None]:
    """(what is wrong with the audit, empty if nothing is; its newest record). With `head`, this
    record must be there."""
    last = None

    def noting_the_last() -> Iterator[AuditRecord]:
        nonlocal last
        for record in records:
            last = record.head
            yield record

    with closing(read_audit(database)) as records:
        return complaint(noting_the_last(), head), last


def read_audit(database: Database) -> Generator[AuditRecord, None, None]:
    """All records, in order, a page at a time."""
    query = select(*AuditRow.__table__.columns).order_by(AuditRow.number)
    with database.reading() as connection:
        for row in connection.execute(query.execution_options(yield_per=ROWS_OF_A_PAGE)):
            yield AuditRecord(*row)


def add(database: Database, batch: Batch) -> None:
    """Raises Overtaken if the books do not end where the batch begins, or were upgraded."""
    entries = batch.entries
    with database.transaction() as connection:
        # the first statement locks the row, so that of two processes only one goes on
        is_ours = (Book.written == batch.since, Book.schema == SCHEMA)
        written = update(Book).where(*is_ours).values(written=batch.until)
        if connection.execute(written).rowcount != 1:
            raise Overtaken(f"{database.name}: {_who_overtook(connection)}")
        _add_entries(connection, entries)
        _add_gaps(connection, entries)
        _set_backlogs(connection, entries.backlogs)
        _set_take_backs(connection, batch.take_backs)
        if batch.audit:
            connection.execute(insert(AuditRow), [asdict(record) for record in batch.audit])
            loss_rows.add(connection, batch.audit)


# --- what is read ---------------------------------------------------------------------------------
def _backlogs(connection: Connection) -> Backlogs:
    rows = connection.execute(select(*Backlog.__table__.columns))
    return {(team, (type_name, resource)): amount for team, type_name, resource, amount in rows}


def _take_backs(connection: Connection) -> dict[Key, TakeBack]:
    records = connection.execute(select(OpenTakeBack.record)).scalars()
    take_backs = [msgspec.json.decode(record, type=TakeBack) for record in records]
    return {take_back.key: take_back for take_back in take_backs}


def _head(connection: Connection) -> Head | None:
    newest = select(AuditRow.number, AuditRow.hash).order_by(AuditRow.number.desc()).limit(1)
    row = connection.execute(newest).one_or_none()
    return Head(row.number, row.hash) if row else None


def _recorded(connection: Connection) -> dict[ObjectName, str]:
    """The newest content of every object; of Cessions those that may be there still."""
    newest = select(func.max(AuditRow.number)).group_by(AuditRow.kind, AuditRow.name)
    others = newest.where(AuditRow.kind != CESSIONS.kind)
    cessions = newest.where(AuditRow.kind == CESSIONS.kind)
    recent = cessions.order_by(func.max(AuditRow.number).desc()).limit(RECALLED_CESSIONS)
    contents = select(AuditRow.kind, AuditRow.name, AuditRow.content)
    recorded = {}
    for numbers in (others, recent):
        for kind, name, content in connection.execute(contents.where(AuditRow.number.in_(numbers))):
            recorded[kind, name] = content
    return recorded


def _who_overtook(connection: Connection) -> str:
    schema = connection.execute(select(Book.schema)).scalar_one_or_none()
    if schema is None or schema <= SCHEMA:
        return "another process writes too: give each ledger its own database"
    return (
        f"a newer version of Cede has upgraded its tables from version {SCHEMA} to {schema}, and "
        "counts from now on. This program writes nothing more: end it"
    )


# --- what is added --------------------------------------------------------------------------------
def _add_entries(connection: Connection, entries: Entries) -> None:
    pools = {(day, *kind): sums for (day, kind), sums in entries.pools.items()}
    _add_sums(connection, PoolDay, pools)
    teams = {(day, team, *kind): sums for (day, (team, kind)), sums in entries.teams.items()}
    _add_sums(connection, TeamDay, teams)
    jobs = {(day, *key): sums for (day, key), sums in entries.jobs.items()}
    _add_sums(connection, JobDay, jobs)
    claims = {(day, *key): sums for (day, key), sums in entries.claims.items()}
    _add_sums(connection, ClaimDay, claims)


def _add_sums(
    connection: Connection,
    table: DayTable,
    sums: Mapping[K, Mapping[str, int]],
) -> None:
    """Adds the sums to the rows of these keys."""
    columns = table.__table__.columns
    key_names = [column.name for column in columns if column.primary_key]
    sum_names = [column.name for column in columns if not column.primary_key]
    nothing = dict.fromkeys(sum_names, 0)
    rows = [
        nothing | dict(values) | dict(zip(key_names, key, strict=True))
        for key, values in sums.items()
    ]
    if not rows:
        return
    statement = _upsert(connection, table)
    added = {name: columns[name] + statement.excluded[name] for name in sum_names}
    connection.execute(statement.on_conflict_do_update(index_elements=key_names, set_=added), rows)


def _upsert(connection: Connection, table: type[Base]) -> Any:
    """An insert that may say what becomes of rows that are there; each database has its own."""
    dialect: Any = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table)


def _add_gaps(connection: Connection, entries: Entries) -> None:
    """A gap that goes on from the last one is the same gap."""
    for gap in entries.gaps:
        longer = update(GapRow).where(GapRow.end == gap.begin, GapRow.reason == gap.reason)
        if connection.execute(longer.values(end=gap.end)).rowcount == 0:
            connection.execute(insert(GapRow), asdict(gap))


def _set_backlogs(connection: Connection, backlogs: Backlogs) -> None:
    rows = [
        {"team": team, "instance_type": type_name, "resource": resource, "amount": amount}
        for (team, (type_name, resource)), amount in backlogs.items()
    ]
    if rows:
        statement = _upsert(connection, Backlog)
        new_amount = {"amount": statement.excluded.amount}
        keys = ["team", "instance_type", "resource"]
        connection.execute(
            statement.on_conflict_do_update(index_elements=keys, set_=new_amount), rows
        )


def _set_take_backs(connection: Connection, take_backs: Sequence[TakeBack]) -> None:
    """The open ones are all there are."""
    connection.execute(delete(OpenTakeBack))
    rows = [
        {
            "cession": entry.cession,
            "target": entry.target,
            "record": msgspec.json.encode(entry).decode(),
        }
        for entry in take_backs
        if not entry.is_over
    ]
    if rows:
        connection.execute(insert(OpenTakeBack), rows)
