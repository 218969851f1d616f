"""The losses in the database are those of the audit, whichever version wrote that."""

import pytest
from sqlalchemy import delete, select

from cede.api.cession import Cession
from ledger import books
from ledger.bookkeeper import Bookkeeper
from ledger.database import Database
from ledger.day_sums import read_days
from ledger.losses import sums_of
from ledger.month_sums import read_month
from ledger.months import parse_month
from ledger.statement import as_csv
from ledger.tables import LossRow
from ledger.timeline import SECOND
from tests.builders.ledger import NOW, seen_at
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
        else:
            connection.exec_driver_sql("DROP TABLE target_losses")
    books.open_books(database, NOW)
    assert read_month(database, NOVEMBER).losses == expected
