"""What a new status of a Cession entails."""

import pytest

from cede.api.objects import rfc3339
from cede.api.reasons import CessionPhase, SchedulerEvent
from scheduler.actions import Action, RecordEvent, RecordWorkloadEvent, UpdateCession
from scheduler.cession.cession_lifecycle import FOLLOWED, Occurrence
from scheduler.cession.recording import end, recording
from tests.builders.scheduler import NOW, cession

TIME = rfc3339(NOW - 60)


@pytest.mark.parametrize("phase", FOLLOWED)
def test_a_cession_can_be_ended_in_every_phase(phase: CessionPhase) -> None:
    update, event = end(cession(phase), Occurrence.BROKEN, NOW, "KeyError")
    assert isinstance(update, UpdateCession)
    assert update.status.phase == "Failed"
    assert update.status.message.endswith("KeyError")
    assert isinstance(event, RecordWorkloadEvent)
    assert event.note == update.status.message


def test_a_status_that_is_not_new_is_not_written() -> None:
    record = cession("Asked")
    assert not list(recording(record, record.status, NOW))


def test_a_job_gets_one_event_when_it_has_released_its_capacity() -> None:
    record = cession("Asked")
    done = cession("Released", targets=[{"uid": "job-uid-gpt", "releasedTime": TIME, "step": 7}])
    events = [a for a in recording(record, done.status, NOW) if is_event(a)]
    assert events == [
        RecordEvent(
            ("research", "gpt"),
            "job-uid-gpt",
            SchedulerEvent.CEDED,
            "shrank to 4 for claim of vision after step 7: because",
        )
    ]
    assert not [a for a in recording(done, done.status, NOW) if is_event(a)]


def test_a_job_that_completed_before_it_had_to_release_anything_gets_no_event() -> None:
    target = {"uid": "job-uid-gpt", "releasedTime": TIME, "completed": True}
    done = cession("Released", targets=[target])
    assert not [a for a in recording(cession("Asked"), done.status, NOW) if is_event(a)]


def test_a_job_that_stays_stopped_has_an_event_that_says_how_to_start_it() -> None:
    record = cession("Asked", 0, "Stop")
    target = {"uid": "job-uid-gpt", "releasedTime": TIME, "stopped": True, "staysStopped": True}
    done = cession("Released", 0, "Stop", targets=[target])
    _, stays = [a for a in recording(record, done.status, NOW) if isinstance(a, RecordEvent)]
    assert stays.reason is SchedulerEvent.STAYS_STOPPED
    assert "set spec.active of Workload job-gpt to true" in stays.note


def is_event(action: Action) -> bool:
    return isinstance(action, RecordEvent)
