"""The losses in the database are those of the audit, whichever version wrote that."""

from collections.abc import Callable

import pytest
from sqlalchemy import Connection, delete, func, select, update

from cede.api.cession import Cession
from ledger import books
from ledger.bookkeeper import Bookkeeper
from ledger.database import Database
from ledger.day_sums import read_days
from ledger.losses import Loss, losses, sums_of
from ledger.month_sums import read_month
from ledger.months import parse_month
from ledger.statement import as_csv
from ledger.tables import LossBook, LossRow
from ledger.timeline import SECOND
from tests.builders.ledger import NOW, cession, seen_at
from tests.builders.losses import CEDED, HELD, RECORDS, UNSAVED, ended, lost_in

NOVEMBER = parse_month("2026-11")


def record(database: Database, *cessions: Cession, after_s: int = 0) -> None:
    """As the ledger does it."""
    begin = NOW + after_s * SECOND
    bookkeeper = Bookkeeper(books.open_books(database, begin), begin)
    for second in (0, 20):
        bookkeeper.look(seen_at(begin + second * SECOND, cessions=cessions))
    batch = bookkeeper.batch()
    assert batch
    books.add(database, batch)


def test_the_statement_has_them_and_says_what_is_unknown(database: Database) -> None:
    record(database, *RECORDS)
    read = read_month(database, NOVEMBER)
    assert read.losses == lost_in(*RECORDS)
    assert read.lost == sums_of(read.losses)
    header, *lines = as_csv(read, "loss").splitlines()
    assert header.endswith(
        "released,cession,team,job,claimant,claimant_job,how,from_size,to_size,lost_steps,lost_hours"
    )
    [rigid] = [line for line in lines if ",c,research," in line]
    assert rigid.endswith(",research/rigid,vision,vision/claim,Stop,8,0,unknown,unknown")
    for other in ("2026-10", "2026-12"):
        assert read_month(database, parse_month(other)).losses == ()


def test_the_page_gets_the_sums_that_are_printed(database: Database) -> None:
    record(database, *RECORDS)
    [statement] = read_days(database, NOW + 60 * SECOND).statements
    assert statement.csv == as_csv(read_month(database, NOVEMBER), "team")
    assert ",3.000000,2\n" in statement.csv


def test_of_several_records_of_a_cession_the_last_counts(database: Database) -> None:
    """A ledger that has forgotten a Cession records it again."""
    record(database, ended(0, stopped=True, unsaved=HELD))
    record(database, ended(0, stopped=True, **CEDED | UNSAVED), after_s=30)
    assert [loss.lost_steps for loss in read_month(database, NOVEMBER).losses] == [20]


def test_a_cession_whose_name_recurs_changes_no_losses_of_the_first(database: Database) -> None:
    """Cessions that ended are deleted, and then their names are free."""
    first = ended(0, stopped=True, **CEDED | UNSAVED)
    later = ended(0, job="rigid", uid="uid-later", stopped=True, unsaved=HELD)
    record(database, first)
    record(database, later, after_s=30)
    assert read_month(database, NOVEMBER).losses == (*lost_in(first), *lost_in(later))


def without_losses(connection: Connection) -> None:
    """As a version leaves it that does not know them."""
    connection.exec_driver_sql("DROP TABLE target_losses")
    connection.exec_driver_sql("DROP TABLE loss_book")
    connection.exec_driver_sql("UPDATE book SET schema = 1")


@pytest.mark.parametrize("known", [0, 4])
def test_a_database_of_an_earlier_version_gets_them_from_its_audit(
    database: Database, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that it recorded after a newer version had been there."""
    monkeypatch.setattr("ledger.loss_rows.RECORDS_OF_A_PAGE", 2)
    record(database, *RECORDS)
    expected = read_month(database, NOVEMBER).losses
    with database.transaction() as connection:
        numbers = connection.execute(select(LossRow.number).order_by(LossRow.number)).scalars()
        later = list(numbers)[known:]
        if known:
            connection.execute(delete(LossRow).where(LossRow.number.in_(later)))
            connection.execute(update(LossBook).values(number=later[0] - 1))
        else:
            without_losses(connection)
    books.open_books(database, NOW)
    assert read_month(database, NOVEMBER).losses == expected


def test_a_ledger_that_ends_while_it_completes_them_goes_on_from_there(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.loss_rows.RECORDS_OF_A_PAGE", 2)
    record(sqlite, *RECORDS)
    expected = read_month(sqlite, NOVEMBER).losses
    with sqlite.transaction() as connection:
        without_losses(connection)
    with monkeypatch.context() as ending:
        ending.setattr("ledger.loss_rows.losses", ends_at(RECORDS[4].metadata.name))
        with pytest.raises(KeyboardInterrupt):
            books.open_books(sqlite, NOW)
    with sqlite.transaction() as connection:
        assert connection.execute(select(func.count()).select_from(LossRow)).scalar_one() == 4
    monkeypatch.setattr("ledger.loss_rows.losses", ends_at(RECORDS[3].metadata.name))
    books.open_books(sqlite, NOW)
    assert read_month(sqlite, NOVEMBER).losses == expected


def ends_at(name_of_last: str) -> Callable[[str, str], tuple[Loss, ...]]:
    def read(name: str, content: str) -> tuple[Loss, ...]:
        if name == name_of_last:
            raise KeyboardInterrupt
        return losses(name, content)

    return read


def test_a_start_reads_no_record_again_also_if_nothing_was_ever_lost(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(sqlite, cession(("gpt", 8, 4), name="c", phase="Cancelled"))
    monkeypatch.setattr("ledger.loss_rows.losses", ends_at("c"))
    books.open_books(sqlite, NOW)


def test_records_that_are_read_again_change_nothing(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if they are more than a statement has room for."""
    monkeypatch.setattr("ledger.loss_rows.CESSIONS_OF_A_STATEMENT", 4)
    record(sqlite, *RECORDS)
    with sqlite.transaction() as connection:
        connection.execute(update(LossBook).values(number=0))
    books.open_books(sqlite, NOW)
    assert read_month(sqlite, NOVEMBER).losses == lost_in(*RECORDS)
