"""Members that do not report may follow another coordinator, unless they are certainly lost."""

from dataclasses import replace

import pytest

from elastic_runtime.agent import absentees
from elastic_runtime.agent.membership_view import Limits, Member, View
from elastic_runtime.messages import Record

LIMITS = Limits()
NOW = 100.0
SILENT = NOW - 5.0
FOUR = (0, 1, 2, 3)
LIVES = ("a", "b", "c", "d")
BEFORE = Record(3, FOUR, tuple(f"{life}.1" for life in LIVES), "here", epoch=1)
NEXT = Record(4, (0, 1), ("a.1", "b.1"), epoch=1)


def pod(index: int, *, reported_at: float = NOW, knows: int = 3, **more: object) -> Member:
    """A member of generation 3 that knows this generation."""
    member = Member(
        index,
        f"{LIVES[index]}.1",
        record_epoch=1,
        record_generation=knows,
        reported_at=reported_at,
    )
    return replace(member, **more)  # type: ignore[arg-type]


def view(*pods: Member, record: Record = BEFORE) -> View:
    return View(record=record, members={member.index: member for member in pods})


@pytest.mark.parametrize(
    ("pods", "is_valid"),
    [
        pytest.param([pod(0, knows=4), pod(1, knows=4)], True, id="the other half cannot elect"),
        pytest.param([pod(0, knows=4), pod(1), pod(2), pod(3)], False, id="three could elect"),
        pytest.param([pod(0, knows=4)], False, id="three that never reported"),
        pytest.param(
            [pod(0, knows=4), *(pod(index, reported_at=SILENT) for index in (1, 2, 3))],
            False,
            id="three are silent",
        ),
        pytest.param(
            [pod(0, knows=4), *(pod(index, reported_at=NOW - 20) for index in (1, 2, 3))],
            True,
            id="three are silent for long",
        ),
        pytest.param(
            [pod(0, knows=4), *(pod(index, incarnation="new.1") for index in (1, 2, 3))],
            True,
            id="three were replaced",
        ),
        pytest.param(
            [pod(0, knows=4), *(pod(index, incarnation="new.1") for index in (1, 2)), pod(3)],
            False,
            id="two were replaced, which the third may have elected",
        ),
        pytest.param(
            [pod(0, knows=4), *(pod(index, leaving=True, parked=True) for index in (1, 2, 3))],
            True,
            id="three have handed over and ended",
        ),
        pytest.param(
            [pod(0, knows=4), *(pod(index, leaving=True) for index in (1, 2, 3))],
            False,
            id="three are terminating",
        ),
        pytest.param(
            [pod(0, knows=4), *(pod(index, incarnation=f"{LIVES[index]}.2") for index in FOUR[1:])],
            False,
            id="the workers of three were restarted, not their agents",
        ),
    ],
)
def test_a_record_is_valid_once_no_other_coordinator_can_be_elected_without_it(
    pods: list[Member], is_valid: bool
) -> None:
    job = absentees.announce(view(*pods), NEXT)
    assert (job.record.electors, job.record.elector_lives) == (FOUR, LIVES)
    job = replace(job, started_at=NOW - 1)
    assert (absentees.confirm(job, NOW, LIMITS).record.electors == ()) == is_valid


def test_members_that_were_not_waited_for_are_asked_whom_they_follow() -> None:
    silent = [pod(index, reported_at=NOW - 20) for index in (1, 2, 3)]
    job = absentees.announce(view(pod(0, knows=4), *silent), NEXT)
    job = absentees.confirm(job, NOW, LIMITS)
    assert job.astray == {1, 2, 3}
    assert absentees.without(job, 2).astray == {1, 3}


def test_the_first_generation_is_valid_at_once() -> None:
    job = absentees.announce(view(pod(0), record=Record()), Record(1, (0,), ("a.1",), epoch=1))
    assert job.record.electors == ()


def test_a_replaced_pod_0_knows_by_the_reports_who_elects() -> None:
    trains = [replace(pod(index), trained_epoch=1, trained_generation=3) for index in (1, 2)]
    trains = [replace(member, members=FOUR) for member in trains]
    pods = [pod(0, incarnation="new.1"), *trains]
    job = absentees.announce(view(*pods, record=Record()), replace(NEXT, epoch=7))
    assert job.record.electors == FOUR
    assert job.record.elector_lives == ("new", "b", "c", "")
    assert job.record.continues(1, 3)
    assert not job.record.continues(1, 4)


def test_a_record_names_the_generations_that_it_continues() -> None:
    job = view(pod(0))
    job = absentees.announce(job, replace(NEXT, generation=4, epoch=1))
    job = absentees.announce(job, replace(NEXT, generation=5, epoch=8))
    job = absentees.announce(job, replace(NEXT, generation=6, epoch=8))
    continued = [(1, 3), (1, 4), (8, 5), (8, 6)]
    others = [(1, 5), (8, 7), (5, 4)]
    assert all(job.record.continues(*order) for order in continued)
    assert not any(job.record.continues(*order) for order in others)
    assert job.record.continues(5, 0), "a pod that has not trained"


@pytest.mark.parametrize(
    ("pods", "record", "could_elect"),
    [
        pytest.param([pod(0), pod(1)], BEFORE, False, id="half"),
        pytest.param([pod(0)], BEFORE, True, id="more than half"),
        pytest.param(
            [pod(0), *(pod(index, reported_at=SILENT) for index in (1, 2, 3))],
            BEFORE,
            True,
            id="silent ones",
        ),
        pytest.param(
            [pod(0), pod(1)],
            replace(NEXT, electors=(0, 1, 2, 3, 4), elector_lives=("a", "b", "c", "d", "e")),
            True,
            id="members before, which do not know the new record",
        ),
    ],
)
def test_whether_missing_members_could_elect(
    pods: list[Member], record: Record, could_elect: bool
) -> None:
    assert absentees.misses_majority(view(*pods, record=record), NOW, LIMITS) == could_elect


def test_a_pod_that_does_not_run_is_not_missed() -> None:
    job = view(pod(0), pod(1, reported_at=SILENT), pod(2, reported_at=SILENT))
    assert absentees.misses_majority(job, NOW, LIMITS)
    assert not absentees.misses_majority(absentees.without(job, 1), NOW, LIMITS)
