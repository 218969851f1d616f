"""What is in the database is what was added, all of it or nothing, whoever starts when."""

from collections import Counter
from dataclasses import replace
from decimal import Decimal

import pytest

from cede.api.audit_chain import AuditRecord, next_record
from cede.api.budget import MonthUse
from cede.api.objects import rfc3339
from cede.api.team_days import Statement
from cede.api.use_history import parse_history
from ledger import books
from ledger.accounting import Entries, Gap
from ledger.bookkeeper import Batch, Bookkeeper, Books
from ledger.claims import TakeBack, Taken
from ledger.database import Database, DatabaseError
from ledger.day_sums import read_days, read_history
from ledger.month_sums import read_month, read_month_use
from ledger.months import hours, parse_month
from ledger.statement import as_csv
from ledger.timeline import SECOND
from tests.builders.ledger import KIND, NOW, Ledger, cession, seen_at, workload

HOUR = 3600 * SECOND
NOVEMBER = parse_month("2026-11")
CESSION = cession(("gpt", 8, 4), phase="Released", released=True)


def empty(since: int, until: int, audit: tuple[AuditRecord, ...] = ()) -> Batch:
    return Batch(since, until, Entries(), (), audit)


def played(database: Database, length: int = 2, *, restarts: bool = False) -> Ledger:
    """A ledger in memory and one in this database that see the same; both may start again."""
    memory = Ledger()
    bookkeeper = Bookkeeper(books.open_books(database, NOW), NOW)
    for number, now in enumerate(range(NOW, NOW + length * HOUR + 1, 25 * SECOND)):
        pods = 4 if number < 20 else 12
        seen_objects = seen_at(
            now, workloads=[workload("gpt", pods=pods)], cessions=[CESSION] if number < 50 else []
        )
        memory.look(seen_objects)
        bookkeeper.look(seen_objects)
        if batch := bookkeeper.batch():
            books.add(database, batch)
            bookkeeper.has_written(batch)
        if restarts and number % 7 == 0:
            memory.restart(now)
            bookkeeper = Bookkeeper(books.open_books(database, now), now)
    return memory


@pytest.mark.parametrize("restarts", [False, True])
def test_the_database_has_what_the_ledger_counted(database: Database, *, restarts: bool) -> None:
    memory = played(database, restarts=restarts)
    month = read_month(database, NOVEMBER)
    assert month.pools == {KIND: memory.pool}
    assert {team: month.teams[team, KIND] for team in ("research", "vision")} == {
        team: memory.team(team) for team in ("research", "vision")
    }
    assert [sums for job, sums in month.jobs.items() if job.job == "gpt"] == [memory.job("gpt")]
    assert sum(sums["taken_back"] for sums in month.claims.values()) == memory.claim(
        "gpt", "vision"
    )
    assert month.gaps == tuple(memory.total.gaps)
    assert (month.began, month.written) == (NOW, memory.books.written)
    opened = books.open_books(database, NOW + 9 * HOUR)
    assert opened == memory.books


def test_books_begin_once(database: Database) -> None:
    assert books.open_books(database, NOW) == Books(NOW)
    books.add(database, empty(NOW, NOW + HOUR))
    assert books.open_books(database, NOW + 5 * HOUR) == Books(NOW + HOUR)
    assert read_month(database, NOVEMBER).began == NOW


def test_two_processes_do_not_write_the_same_time_twice(database: Database) -> None:
    books.open_books(database, NOW)
    books.add(database, empty(NOW, NOW + HOUR))
    with pytest.raises(books.Overtaken, match="another process writes too: give each ledger"):
        books.add(database, empty(NOW, NOW + 2 * HOUR))
    assert books.open_books(database, NOW).written == NOW + HOUR


def test_a_batch_is_written_as_a_whole_or_not(database: Database) -> None:
    """Its last statement fails: a record of this number is there."""
    books.open_books(database, NOW)
    record = next_record(None, "t", "Kind", "name", "{}")
    books.add(database, empty(NOW, NOW + HOUR, (record,)))
    entries = Entries(
        pools={("2026-11-20", KIND): Counter(capacity=1)},
        gaps=[Gap(NOW + HOUR, NOW + 2 * HOUR, "why")],
        backlogs={("research", KIND): 5},
    )
    with pytest.raises(DatabaseError):
        books.add(database, Batch(NOW + HOUR, NOW + 2 * HOUR, entries, (), (record,)))
    assert books.open_books(database, NOW) == Books(
        NOW + HOUR, head=record.head, recorded={("Kind", "name"): "{}"}
    )
    month = read_month(database, NOVEMBER)
    assert (month.pools, month.gaps) == ({}, ())


def test_a_take_back_that_is_over_is_forgotten(database: Database) -> None:
    books.open_books(database, NOW)
    entry = TakeBack(
        *("c", "uid", "uid", "research", "research", "gpt", "vision"), (Taken(*KIND, 8, 4),), True
    )
    books.add(database, replace(empty(NOW, NOW + 1), take_backs=(entry,)))
    assert books.open_books(database, NOW).take_backs == {entry.key: entry}
    over = replace(entry, is_over=True)
    books.add(database, replace(empty(NOW + 1, NOW + 2), take_backs=(over,)))
    assert books.open_books(database, NOW).take_backs == {}


# --- the audit ------------------------------------------------------------------------------------
def with_audit(database: Database) -> list[AuditRecord]:
    books.open_books(database, NOW)
    records: list[AuditRecord] = []
    for number in range(5):
        head = records[-1].head if records else None
        records.append(next_record(head, "t", "Kind", f"n-{number}", "{}"))
    books.add(database, empty(NOW, NOW + 1, tuple(records)))
    return records


def test_an_audit_that_nobody_changed_is_intact(database: Database) -> None:
    head = with_audit(database)[-1].head
    assert books.verify(database, head) == ("", head)
    assert books.verify(database, None) == ("", head)


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("UPDATE audit SET content = '{\"x\":1}' WHERE number = 3", id="edit"),
        pytest.param("UPDATE audit SET time = 'u' WHERE number = 5", id="edit the newest"),
        pytest.param("DELETE FROM audit WHERE number = 2", id="delete"),
        pytest.param("DELETE FROM audit WHERE number > 3", id="truncate"),
        pytest.param("DELETE FROM audit", id="delete all"),
        pytest.param("UPDATE audit SET number = number + 1 WHERE number = 5", id="renumber"),
        pytest.param(
            "UPDATE audit SET number = -number WHERE number IN (4, 5);"
            "UPDATE audit SET number = 9 + number WHERE number < 0",
            id="reorder",
        ),
        pytest.param(
            "INSERT INTO audit SELECT 6, time, kind, name, content, previous, hash "
            "FROM audit WHERE number = 5",
            id="repeat",
        ),
    ],
)
def test_every_change_of_the_database_is_found(sqlite: Database, statement: str) -> None:
    head = with_audit(sqlite)[-1].head
    with sqlite.transaction() as connection:
        for part in statement.split(";"):
            connection.exec_driver_sql(part)
    assert books.verify(sqlite, head)[0]


# --- what others read -----------------------------------------------------------------------------
def test_the_use_of_a_month_is_that_of_the_statement(database: Database) -> None:
    played(database, restarts=True)
    use = read_month_use(database, {"research", "vision", "absent"})
    month = read_month(database, NOVEMBER)
    assert (use.month, use.until) == ("2026-11", rfc3339(month.written / SECOND))
    [type_name, resource] = KIND
    assert use.used == {
        "research": {type_name: {resource: Decimal(hours(month.teams["research", KIND]["used"]))}}
    }
    assert use.not_recorded_hours == Decimal(hours(month.passed - month.recorded))
    assert use.not_recorded_hours > 24 * 19, "the books began on the 20th, and had restarts"
    assert read_month_use(database, {"vision"}).used == {}


def test_a_month_that_has_just_begun_has_no_use(sqlite: Database) -> None:
    turn = NOVEMBER.end
    bookkeeper = Bookkeeper(books.open_books(sqlite, turn - 60 * SECOND), turn - 60 * SECOND)
    for second in range(-60, 1, 20):
        bookkeeper.look(seen_at(turn + second * SECOND, workloads=[workload("gpt")]))
    batch = bookkeeper.batch()
    assert batch
    books.add(sqlite, batch)
    use = read_month_use(sqlite, {"research"})
    assert use == MonthUse("2026-12", "2026-12-01T00:00:00Z")


def test_the_history_has_the_days_and_what_is_missing(database: Database) -> None:
    memory = played(database, length=1, restarts=True)
    history = read_history(database, 30)
    assert history.begin == rfc3339(NOW / SECOND), "not before the books began"
    [research, vision] = history.days
    assert (research.day, research.team, vision.team) == ("2026-11-20", "research", "vision")
    assert research.used == Decimal(hours(memory.team("research")["used"]))
    assert vision.lent == Decimal(hours(memory.team("vision")["lent"]))
    assert history.not_recorded_hours == Decimal(hours(memory.gap))
    assert parse_history(history.text()) == history


def test_the_history_has_no_more_days_than_were_asked_for(sqlite: Database) -> None:
    books.open_books(sqlite, NOW)
    books.add(sqlite, replace(empty(NOW, NOW + 3 * 24 * HOUR), entries=two_days()))
    assert [day.day for day in read_history(sqlite, 3).days] == ["2026-11-21"]
    assert read_history(sqlite, 3).begin == "2026-11-21T00:00:00Z"
    assert len(read_history(sqlite, 4).days) == 2


def test_a_month_has_its_days_and_no_others(database: Database) -> None:
    days = ("2026-10-31", "2026-11-01", "2026-11-30", "2026-12-01")
    teams = {(day, ("vision", KIND)): Counter(used=HOUR) for day in days}
    books.open_books(database, NOW)
    books.add(database, replace(empty(NOW, NOW + HOUR), entries=Entries(teams=teams)))
    assert read_month(database, NOVEMBER).teams["vision", KIND]["used"] == 2 * HOUR


def test_the_page_gets_the_statements_that_are_printed(database: Database) -> None:
    played(database, restarts=True)
    printed = as_csv(read_month(database, NOVEMBER), "team")
    assert read_days(database, NOW + 2 * HOUR).statements == (Statement("2026-11", printed),)
    assert sum(sums["taken_back"] for sums in read_month(database, NOVEMBER).claims.values()) > 0


def two_days() -> Entries:
    days = ("2026-11-20", "2026-11-21")
    return Entries(teams={(day, ("vision", KIND)): Counter(available=HOUR) for day in days})
