"""What the answer to a request writes, and when it is an event."""

import pytest

from cede.api import names
from cede.api.objects import EVENTS, JOBS
from cede.api.reasons import SaveState, SchedulerEvent
from cede.api.save_request import SaveAnswer, SaveRequest, read
from scheduler.apply import Applier
from scheduler.save_actions import AnswerSave
from tests.fakes.api_server import ApiServer

GPT = ("research", "gpt")


def answering(state: SaveState, version: str = "7") -> AnswerSave:
    answer = SaveAnswer("r", state, "2026-01-31T12:00:00Z", 1, 12, "the disk is full")
    return AnswerSave(GPT, "u", version, answer)


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (SaveState.PENDING, None),
        (SaveState.ASKED, None),
        (SaveState.SAVED, (SchedulerEvent.SAVED, "step 12, requested by r")),
        (SaveState.NOT_SAVED, (SchedulerEvent.NOT_SAVED, "requested by r: the disk is full")),
    ],
)
def test_a_final_answer_is_an_event(
    state: SaveState, event: tuple[SchedulerEvent, str] | None
) -> None:
    assert answering(state).event == event


async def test_the_answer_is_on_the_job_and_in_its_events(
    server: ApiServer, applier: Applier
) -> None:
    annotations = {names.SAVE_REQUESTED: "r", "theirs": "stays"}
    metadata = {"namespace": "research", "name": "gpt", "annotations": annotations}
    version = server.put(JOBS, {"metadata": metadata})["metadata"]["resourceVersion"]
    action = answering(SaveState.SAVED, version)
    await applier.apply([action])
    job = server.get(JOBS, GPT)
    assert job is not None
    assert read(job["metadata"]["annotations"]) == SaveRequest("r", action.answer)
    assert job["metadata"]["annotations"]["theirs"] == "stays"
    [event] = server.objects(EVENTS)
    assert (event["reason"], event["regarding"]["name"]) == ("Saved", "gpt")


async def test_a_job_that_has_changed_gets_no_answer_and_no_event(
    server: ApiServer, applier: Applier
) -> None:
    server.put(JOBS, {"metadata": {"namespace": "research", "name": "gpt"}})
    await applier.apply([answering(SaveState.SAVED, version="1000")])
    job = server.get(JOBS, GPT)
    assert job is not None
    assert names.SAVE_ANSWER not in job["metadata"].get("annotations", {})
    assert not server.objects(EVENTS)
