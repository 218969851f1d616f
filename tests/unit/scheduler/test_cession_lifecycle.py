"""The life of a take-back: each thing that can happen, in each phase it can happen in."""

import pytest

from cede.api.cession import OPEN, Cession, CessionStatus
from cede.api.objects import rfc3339
from scheduler.actions import Act, Activate, Ask, Queueing, Record, Resize
from scheduler.cession_lifecycle import TABLE, advance
from scheduler.snapshot import Snapshot
from tests.builders.scheduler import NOW, cession, queue, running, says, snapshot, tree, waiting

ASKED = says(wanted=4, cession="c-1", size=8, state="resizing")
CEDED = says(wanted=4, cession="c-1", size=4, step=17)


def acts(of: Cession, seen: Snapshot, now: float = NOW) -> list[Act]:
    return list(advance(of, seen, now))


def kinds(found: list[Act]) -> list[str]:
    return [type(act).__name__ for act in found]


def recorded(found: list[Act]) -> CessionStatus:
    return next(act.status for act in found if isinstance(act, Record))


def full(status: object = None, **job: object) -> Snapshot:
    return snapshot(running=(running(status=status, **job),), waiting=(waiting(),))  # type: ignore[arg-type]


def test_first_the_queue_is_reserved_and_the_runtime_asked() -> None:
    found = acts(cession(), full())
    assert kinds(found)[:2] == ["Queueing", "Ask"]
    assert found[0] == Queueing("vision", "StrictFIFO", "7")
    assert isinstance(found[1], Ask)
    assert (found[1].size, found[1].cession) == (4, "c-1")


def test_a_job_is_not_resized_before_it_has_ceded() -> None:
    assert not [act for act in acts(cession("Asked"), full(ASKED)) if isinstance(act, Resize)]


def test_a_job_that_ceded_is_resized_at_the_version_that_was_seen_and_its_step_kept() -> None:
    found = acts(cession("Asked"), full(CEDED))
    (resize,) = [act for act in found if isinstance(act, Resize)]
    assert (resize.size, resize.version, resize.shrunk) == (4, "7", True)
    assert recorded(found).targets[0].step == 17


def test_what_it_said_for_another_cession_counts_for_nothing() -> None:
    assert not [
        act
        for act in acts(cession("Asked"), full(says(wanted=4, cession="older", size=4)))
        if isinstance(act, Resize)
    ]


@pytest.mark.parametrize(
    "status", [pytest.param(None, id="silent"), pytest.param(ASKED, id="still saving")]
)
def test_past_the_deadline_the_job_is_resized_all_the_same_and_that_is_recorded(
    status: object,
) -> None:
    found = acts(cession("Asked", deadline=NOW - 1), full(status))
    assert [act for act in found if isinstance(act, Resize)]
    assert recorded(found).targets[0].forcedTime


def test_a_job_that_is_not_elastic_is_stopped_by_its_workload() -> None:
    plain = full(allowed=(), address="")
    first = acts(cession(to=0, how="Stop"), plain)
    assert recorded(first).targets[0].stopped
    assert not [act for act in first if isinstance(act, Activate)], "the record comes first"
    noted = {"uid": "job-uid-gpt", "stopped": True}
    assert [
        act
        for act in acts(cession(to=0, how="Stop", targets=[noted]), plain)
        if isinstance(act, Activate) and not act.active
    ]


def test_all_released_is_released_and_the_runtime_is_not_asked_again() -> None:
    found = acts(cession("Asked"), snapshot(running=(running(size=4),), waiting=(waiting(),)))
    assert recorded(found).phase == "Released"


def test_a_claimant_that_kueue_admitted_is_admitted_and_completed_once_its_pods_are_ready() -> None:
    starting = running("claim", "vision", 4, ready=1)
    found = acts(cession("Released"), snapshot(running=(running(size=4), starting)))
    assert recorded(found).phase == "Admitted"
    ready = running("claim", "vision", 4, ready=4)
    done = recorded(acts(cession("Released"), snapshot(running=(running(size=4), ready)), NOW + 1))
    assert (done.phase, done.secondsToOwner) == ("Completed", "2.0")


@pytest.mark.parametrize("phase", OPEN)
def test_a_claimant_that_is_gone_cancels_in_every_phase(phase: str) -> None:
    found = acts(cession(phase), snapshot(running=(running(),)))
    assert recorded(found).phase == "Cancelled"
    assert not [act for act in found if isinstance(act, (Resize, Ask))]


def test_released_and_not_admitted_in_time_fails_so_that_it_is_planned_again() -> None:
    victim = {"uid": "job-uid-gpt", "releasedTime": rfc3339(NOW - 60)}
    thief = running("thief", "vision", size=4)
    found = acts(
        cession("Released", targets=[victim]),
        snapshot(running=(running(size=4), thief), waiting=(waiting(),)),
    )
    assert recorded(found).phase == "Failed"


def test_released_and_there_is_room_waits_for_kueue_however_long_it_takes() -> None:
    victim = {"uid": "job-uid-gpt", "releasedTime": rfc3339(NOW - 600)}
    found = acts(
        cession("Released", targets=[victim]),
        snapshot(running=(running(size=4),), waiting=(waiting(),)),
    )
    assert not [act for act in found if isinstance(act, Record) and act.status.phase != "Released"]


def test_what_was_stopped_for_it_comes_back_when_the_owner_is_in() -> None:
    stopped = {"uid": "job-uid-gpt", "stopped": True, "releasedTime": rfc3339(NOW)}
    back = waiting("gpt", "research", active=False, job_uid="job-uid-gpt")
    owner = running("claim", "vision", 4)
    found = acts(
        cession("Released", to=0, how="Stop", targets=[stopped]),
        snapshot(running=(owner,), waiting=(back,)),
    )
    assert [act for act in found if isinstance(act, Activate) and act.active]


def test_the_table_leads_somewhere_from_every_open_phase_and_nowhere_from_the_others() -> None:
    assert {phase for phase, to in TABLE.items() if to} == set(OPEN)


def test_saying_it_again_changes_nothing() -> None:
    seen = snapshot(
        tree(queue("vision", strategy="StrictFIFO"), queue("research", used=8)),
        running=(running(status=ASKED),),
        waiting=(waiting(),),
    )
    first = acts(cession(), seen)
    again = cession()
    again.status = recorded(first)
    assert kinds(acts(again, seen)) == []
