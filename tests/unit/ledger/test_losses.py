"""What was lost in take-backs, from the records of the audit; what nobody knows is no 0."""

from collections import Counter
from dataclasses import replace

import pytest

from cede.api import names
from cede.api.cession import Cession
from ledger.changes import ContentReader
from ledger.losses import losses, sums_of
from ledger.months import HOUR, parse_month
from ledger.statement_tables import TABLES, MonthSums
from ledger.usage import JobKey
from tests.builders.ledger import KIND, NOW, TYPE, cession
from tests.builders.losses import CEDED, HELD, RECORDS, RELEASED, UNSAVED, ended, lost_in

NOVEMBER = parse_month("2026-11")
MIG = "nvidia.com/mig-1g.5gb"


@pytest.mark.parametrize(
    ("record", "how", "steps", "hours"),
    [
        pytest.param(ended(**CEDED), "Shrink", 0, 0, id="shrank after it had ceded"),
        pytest.param(ended(), "Shrink", None, None, id="shrank without an answer"),
        pytest.param(ended(0, how="Drain"), "Drain", 0, 0, id="a pod of a server that drained"),
        pytest.param(
            ended(0, how="Drain", stopped=True, unsaved=HELD),
            *("Stop", None, None),
            id="a server that did not drain, and was stopped",
        ),
        pytest.param(ended(0), "Stop", 0, 0, id="ended by itself before it was stopped"),
        pytest.param(
            ended(0, stopped=True, **CEDED | UNSAVED),
            *("Stop", 20, 1.5),
            id="stopped after it had ceded, and could not save",
        ),
        pytest.param(
            ended(0, stopped=True, **CEDED | {"durableStep": 70}),
            *("Stop", 0, 0),
            id="stopped after it had saved",
        ),
        pytest.param(
            ended(0, stopped=True, **UNSAVED),
            *("Stop", 20, 1.5),
            id="stopped, and it had reported before",
        ),
        pytest.param(
            ended(0, stopped=True, unsaved=HELD),
            *("Stop", None, None),
            id="stopped, and nobody could ask it",
        ),
        pytest.param(ended(stopped=True), "Stop", None, None, id="was to shrink, and was stopped"),
        pytest.param(ended(completed=True), "Shrink", 0, 0, id="completed before it was to shrink"),
        pytest.param(
            ended(0, stopped=True, withoutAccelerators=True),
            *("Stop", None, 0),
            id="stopped without accelerators, and nobody could ask it",
        ),
        pytest.param(
            ended(0, stopped=True, **CEDED | {"withoutAccelerators": True}),
            *("Stop", 20, 0),
            id="stopped without accelerators, and could not save",
        ),
        pytest.param(
            ended(0, stopped=True, **CEDED),
            *("Stop", 20, None),
            id="the scheduler of an earlier version recorded it",
        ),
    ],
)
def test_what_a_job_lost(record: Cession, how: str, steps: int | None, hours: float | None) -> None:
    [loss] = lost_in(record)
    assert (loss.how, loss.lost_steps) == (how, steps)
    assert loss.lost == (None if hours is None else hours * HOUR)
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
    assert lost_in(record) == ()


def test_records_of_deleted_cessions_and_of_earlier_versions_say_nothing() -> None:
    before = '{"claimant":"vision","ended":true,"job":"v/j","targets":[{"team":"research"}]}'
    assert losses("a", '{"deleted":true}') == losses("b", before) == ()


def test_a_record_without_a_loss_is_as_earlier_versions_wrote_it() -> None:
    """Or a new version would record all Cessions again that are there."""
    [text] = ContentReader().read([ended(**CEDED)]).values()
    assert '"lost":' not in text
    assert '"uid":"job-gpt"' not in text


# --- the tables of a month ------------------------------------------------------------------------
def month(*records: Cession) -> MonthSums:
    entries = lost_in(*records)
    gpt = JobKey("research", "research", "gpt", "job-gpt", "low", *KIND)
    return MonthSums(
        NOVEMBER,
        *(NOW, NOW),
        jobs={gpt: Counter(used=HOUR)},
        losses=entries,
        lost=sums_of(entries),
    )


def rows(table: str, *columns: str) -> list[tuple[str | None, ...]]:
    return [tuple(map(row.get, columns)) for row in TABLES[table](month(*RECORDS))]


def test_all_losses_add_up_by_the_job_that_claimed_and_what_is_unknown_is_no_0() -> None:
    columns = ("lost_steps", "unknown_steps", "lost_hours", "unknown_losses")
    assert rows("claimant", "claimant", "targets", "stopped", *columns) == [
        ("speech", "4", "3", "unknown", "3", "unknown", "2"),
        ("vision", "3", "3", "25", "1", "3.000000", "1"),
    ]


def test_a_job_without_accelerators_adds_no_hours_and_its_steps_are_no_0() -> None:
    sums = month(ended(0, job="cpu", stopped=True, withoutAccelerators=True))
    [row] = TABLES["claimant"](sums)
    assert (row["lost_steps"], row["unknown_steps"]) == ("unknown", "1")
    assert (row["lost_hours"], row["unknown_losses"]) == ("0.000000", "0")
    [loss] = TABLES["loss"](sums)
    assert (loss["lost_steps"], loss["lost_hours"]) == ("unknown", "0.000000")
    assert TABLES["type"](sums) == []


@pytest.mark.parametrize(
    ("table", "columns", "expected"),
    [
        (
            "team",
            ("team", "instance_type"),
            [("research", "", "unknown", "1"), ("research", TYPE, "3.000000", "2")],
        ),
        ("type", ("instance_type",), [("", "unknown", "1"), (TYPE, "3.000000", "2")]),
        (
            "claim",
            ("claimant", "instance_type"),
            [
                ("speech", "", "unknown", "1"),
                ("speech", TYPE, "unknown", "1"),
                ("vision", TYPE, "3.000000", "1"),
            ],
        ),
        (
            "class",
            ("priority_class", "instance_type"),
            [
                ("", "", "unknown", "1"),
                ("", TYPE, "unknown", "2"),
                ("low", TYPE, "3.000000", "0"),
            ],
        ),
        (
            "job",
            ("job", "uid"),
            [
                ("gpt", "job-gpt", "3.000000", "0"),
                ("old", "job-old", "unknown", "1"),
                ("rigid", "job-rigid", "unknown", "2"),
            ],
        ),
    ],
)
def test_every_table_has_the_hours_that_are_known_and_how_many_losses_are_not(
    table: str, columns: tuple[str, ...], expected: list[tuple[str, ...]]
) -> None:
    """The job of a class is known if it ran in this month."""
    assert rows(table, *columns, "lost", "unknown_losses") == expected


def test_jobs_of_two_teams_whose_losses_have_no_uid_have_a_row_each() -> None:
    """Earlier versions recorded none."""
    first = lost_in(ended(0, stopped=True, unsaved=HELD))
    second = lost_in(ended(0, "d", team="speech", job="asr", stopped=True, unsaved=HELD))
    entries = tuple(replace(loss, uid="") for loss in (*first, *second))
    sums = MonthSums(NOVEMBER, *(NOW, NOW), losses=entries, lost=sums_of(entries))
    assert [(row["team"], row["job"], row["unknown_losses"]) for row in TABLES["job"](sums)] == [
        ("research", "gpt", "1"),
        ("speech", "asr", "1"),
    ]


def test_a_job_with_two_kinds_of_accelerators_loses_on_both() -> None:
    kinds = [*UNSAVED["unsaved"], {"flavor": TYPE, "resource": MIG, "seconds": "3600.0"}]
    sums = month(ended(0, stopped=True, **CEDED | UNSAVED | {"unsaved": kinds}))
    [row] = TABLES["loss"](sums)
    assert (row["lost_steps"], row["lost_hours"]) == ("20", "2.500000")
    assert [(row["resource"], row["lost"]) for row in TABLES["type"](sums)] == [
        (names.GPU, "1.500000"),
        (MIG, "1.000000"),
    ]
