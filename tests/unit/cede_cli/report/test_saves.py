"""What a user reads while a job is asked to save, and when that is over."""

from typing import Any

import pytest

from cede.api import names
from cede.api.kueue import Job, JobSpec, JobStatus
from cede.api.objects import Condition, Meta
from cede.api.reasons import SaveState
from cede.api.save_request import SaveAnswer
from cede.report.saves import SaveProgress, progress, why_not_now

COMPLETE = JobStatus(conditions=(Condition(type="Complete", status="True"),))
FAILED = JobStatus(conditions=(Condition(type="Failed", status="True"),))


def job(answer: SaveAnswer | None = None, request: str = "r", **more: Any) -> Job:
    notes = {names.SIZES: "2-8"}
    if request:
        notes[names.SAVE_REQUESTED] = request
    if answer:
        notes[names.SAVE_ANSWER] = answer.text()
    return Job(Meta(name="gpt", namespace="vision", annotations=notes), **more)


def answer(state: SaveState, **more: Any) -> SaveAnswer:
    return SaveAnswer("r", state, "2026-01-31T12:00:00Z", **more)


STOPPED = JobSpec(suspend=True)
SAVED = answer(SaveState.SAVED, step=12)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(job(), "gpt is to save; the scheduler has not seen that yet", id="new"),
        pytest.param(
            job(answer(SaveState.PENDING)), "gpt does not train at present: it is", id="waiting"
        ),
        pytest.param(
            job(answer(SaveState.ASKED, step=9, attempts=1)),
            "gpt is asked to save, after step 9",
            id="asked",
        ),
        pytest.param(
            job(answer(SaveState.ASKED, step=9, attempts=2)),
            "gpt is asked to save, after step 9 and again, because it saved nothing",
            id="asked again",
        ),
    ],
)
def test_while_it_may_still_save_the_sentence_says_what_it_waits_for(
    job: Job, expected: str
) -> None:
    present = progress("gpt", job, "r")
    assert present.sentence.startswith(expected)
    assert present.has_saved is None


@pytest.mark.parametrize("more", [{}, {"status": COMPLETE}, {"spec": STOPPED}])
def test_a_job_has_saved_also_if_it_has_ended_since(more: dict[str, Any]) -> None:
    expected = SaveProgress("gpt has saved step 12", has_saved=True, step=12)
    assert progress("gpt", job(SAVED, **more), "r") == expected


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(
            job(answer(SaveState.NOT_SAVED, message="the disk is full")),
            "gpt has not saved: the disk is full",
            id="failed",
        ),
        pytest.param(None, "gpt was deleted before", id="deleted"),
        pytest.param(job(status=COMPLETE), "gpt has ended before", id="complete"),
        pytest.param(job(status=FAILED), "gpt has ended before", id="failed job"),
        pytest.param(job(spec=STOPPED), "gpt was stopped before", id="stopped"),
        pytest.param(job(request="another"), "the request is not on gpt any more", id="replaced"),
        pytest.param(job(request=""), "the request is not on gpt any more", id="removed"),
    ],
)
def test_when_it_cannot_save_any_more_the_sentence_says_why(job: Job | None, expected: str) -> None:
    present = progress("gpt", job, "r")
    assert present.sentence.startswith(expected)
    assert present.has_saved is False


def test_only_an_elastic_job_that_runs_is_asked() -> None:
    assert not why_not_now(job())
    rigid = Job(Meta(name="gpt"))
    assert "gpt is not elastic" in why_not_now(rigid)
    assert why_not_now(job(status=COMPLETE)) == "gpt has ended"
    assert "cede explain gpt -n vision" in why_not_now(job(spec=STOPPED))
