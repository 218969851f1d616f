"""What was lost in take-backs, from the records of the audit; what nobody knows is no 0."""

from typing import Any

import pytest

from cede.api.cession import Cession
from ledger import books
from ledger.bookkeeper import Bookkeeper
from ledger.changes import ContentReader
from ledger.database import Database
from ledger.losses import Loss, losses
from ledger.month_sums import read_month
from ledger.months import parse_month
from ledger.statement import TABLES, MonthSums, as_csv
from ledger.timeline import SECOND
from tests.builders.ledger import NOW, cession, seen_at

NOVEMBER = parse_month("2026-11")
RELEASED = "2026-11-20T00:00:00Z"
CEDED: dict[str, Any] = {"cededTime": "2026-11-20T00:00:00Z", "step": 70, "durableStep": 50}


def ended(size: int = 4, name: str = "c", claimant: str = "vision", **target: Any) -> Cession:
    """One job gave, from eight pods to so many."""
    record = cession(
        ("gpt", 8, size), name=name, claimant=claimant, phase="Completed", released=True
    )
    [status] = record.status.targets
    record.status.targets = [status.model_copy(update=target)]
    return record


def contents(*cessions: Cession) -> list[tuple[str, str]]:
    reader = ContentReader()
    return [(name, text) for (_, name), text in reader.read(cessions).items()]


@pytest.mark.parametrize(
    ("record", "how", "lost_steps"),
    [
        pytest.param(ended(**CEDED), "Shrink", 0, id="shrank after it had ceded"),
        pytest.param(ended(), "Shrink", None, id="shrank without an answer"),
        pytest.param(ended(0, stopped=True, **CEDED), "Stop", 20, id="stopped after it had ceded"),
        pytest.param(ended(0, stopped=True), "Stop", None, id="stopped, and nobody could ask it"),
        pytest.param(ended(stopped=True), "Stop", None, id="was to shrink, and was stopped"),
    ],
)
def test_what_a_job_lost(record: Cession, how: str, lost_steps: int | None) -> None:
    [loss] = losses(contents(record), "2026-11")
    assert (loss.how, loss.lost_steps) == (how, lost_steps)
    assert (loss.team, loss.job, loss.claimant) == ("research", "research/gpt", "vision")
    assert (loss.released, loss.from_size) == (RELEASED, 8)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(cession(("gpt", 8, 4), phase="Released", released=True), id="not ended"),
        pytest.param(cession(("gpt", 8, 4), phase="Cancelled"), id="nothing was released"),
    ],
)
def test_who_has_released_nothing_for_sure_is_left_out(record: Cession) -> None:
    assert losses(contents(record), "2026-11") == ()


def test_a_loss_is_of_the_month_in_which_it_was_released() -> None:
    assert losses(contents(ended()), "2026-10") == ()
    assert losses(contents(ended()), "2026-12") == ()


def test_of_several_records_of_a_cession_the_last_counts() -> None:
    twice = [*contents(ended()), *contents(ended(**CEDED))]
    assert [loss.lost_steps for loss in losses(twice, "2026-11")] == [0]


def test_records_of_deleted_cessions_and_of_earlier_versions_say_nothing() -> None:
    before = '{"claimant":"vision","ended":true,"job":"v/j","targets":[{"team":"research"}]}'
    assert losses([("a", '{"deleted":true}'), ("b", before)], "2026-11") == ()


def test_all_losses_add_up_by_the_job_that_claimed_and_what_is_unknown_is_no_0() -> None:
    records = [
        ended(0, "a", stopped=True, **CEDED),
        ended(0, "b", stopped=True, **CEDED | {"durableStep": 65}),
        ended(0, "c", stopped=True),
        ended(4, "d", "speech", **CEDED),
    ]
    sums = MonthSums(NOVEMBER, NOW, NOW, losses=losses(contents(*records), "2026-11"))
    columns = ("claimant", "claimant_job", "targets", "stopped", "lost_steps", "unknown_losses")
    rows = [tuple(map(row.get, columns)) for row in TABLES["claimant"](sums)]
    assert rows == [
        ("speech", "speech/claim", "1", "0", "0", "0"),
        ("vision", "vision/claim", "3", "3", "25", "1"),
    ]


def test_the_statement_has_them_and_says_what_is_unknown(database: Database) -> None:
    bookkeeper = Bookkeeper(books.open_books(database, NOW), NOW)
    for second in (0, 20):
        bookkeeper.look(seen_at(NOW + second * SECOND, cessions=[ended()]))
    batch = bookkeeper.batch()
    assert batch
    books.add(database, batch)
    month = read_month(database, NOVEMBER)
    assert month.losses == (
        Loss(
            RELEASED,
            "c",
            "research",
            "research/gpt",
            "vision",
            "vision/claim",
            "Shrink",
            8,
            4,
            None,
        ),
    )
    header, row = as_csv(month, "loss").splitlines()
    assert header.endswith(
        "released,cession,team,job,claimant,claimant_job,how,from_size,to_size,lost_steps"
    )
    assert row.endswith(",research/gpt,vision,vision/claim,Shrink,8,4,unknown")
    assert read_month(database, parse_month("2026-10")).losses == ()
