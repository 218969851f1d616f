"""A user wants a job saved now: when it is asked, when it has saved, and when that has failed."""

from dataclasses import replace
from typing import Any

import pytest

from cede.api.objects import rfc3339
from cede.api.reasons import SaveState
from cede.api.save_request import SaveAnswer, SaveRequest
from elastic_runtime.contract import State, Status
from scheduler.save_actions import AnswerSave, RequestSave
from scheduler.saves import MAX_ATTEMPT_S, MAX_ATTEMPTS, MIN_ATTEMPT_S, WAIT_S, serve_saves
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.scheduler import NOW, admitted, runtime_status, snapshot

TRAINS = runtime_status(step=10, durable_step=5)
DISK_FULL = "saving step 11 to /save failed: [Errno 28] No space left on device"


def job(
    answer: SaveAnswer | None, runtime: Status | None = TRAINS, **more: Any
) -> AdmittedWorkload:
    observed = Observed(**more)
    return replace(admitted(runtime=runtime), save=SaveRequest("r", answer), observed=observed)


def answer(state: SaveState, since: float = NOW, **more: Any) -> SaveAnswer:
    return SaveAnswer("r", state, rfc3339(since), **more)


def asked(since: float = NOW, **more: Any) -> SaveAnswer:
    facts: dict[str, Any] = {"attempts": 1, "step": 10} | more
    return answer(SaveState.ASKED, since, **facts)


def served(job: AdmittedWorkload, now: float = NOW) -> SaveAnswer | None:
    """The new answer; None if the old one stays."""
    actions = list(serve_saves(snapshot(admitted=[job]), now))
    answers = [action.answer for action in actions if isinstance(action, AnswerSave)]
    return answers[0] if answers else None


# --- when it is asked -----------------------------------------------------------------------------
def test_a_job_without_a_request_is_left_alone() -> None:
    assert not list(serve_saves(snapshot(admitted=[admitted(runtime=TRAINS)]), NOW))


@pytest.mark.parametrize("state", [SaveState.SAVED, SaveState.NOT_SAVED])
def test_a_request_that_is_answered_is_left_alone(state: SaveState) -> None:
    assert not list(serve_saves(snapshot(admitted=[job(answer(state, NOW - 9999))]), NOW))


def test_the_answer_is_written_first_and_then_the_job_is_asked_until_a_pod_accepts() -> None:
    [action] = serve_saves(snapshot(admitted=[job(None)]), NOW)
    assert isinstance(action, AnswerSave)
    assert action.answer == asked()
    [request] = serve_saves(snapshot(admitted=[job(action.answer)]), NOW)
    assert isinstance(request, RequestSave)
    assert (request.job, request.job_uid) == (("research", "gpt"), "job-uid-gpt")
    accepted = job(action.answer, save_accepted=request.attempt)
    assert not list(serve_saves(snapshot(admitted=[accepted]), NOW))


@pytest.mark.parametrize(
    ("runtime", "reason"),
    [
        pytest.param(None, "none of its pods answers", id="silent"),
        pytest.param(
            replace(TRAINS, state=State.STARTING, busy="waits for pod 1"),
            "it does not train: waits for pod 1",
            id="starting",
        ),
    ],
)
def test_a_job_that_does_not_train_is_waited_for_and_then_it_has_failed(
    runtime: Status | None, reason: str
) -> None:
    first = served(job(None, runtime))
    assert first == answer(SaveState.PENDING)
    assert served(job(first, runtime), NOW + WAIT_S - 1) is None
    assert served(job(first), NOW + WAIT_S - 1) == asked(NOW + WAIT_S - 1)
    late = NOW + WAIT_S
    assert served(job(first, runtime), late) == answer(SaveState.NOT_SAVED, late, message=reason)


# --- when it has saved ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("runtime", "step"),
    [
        pytest.param(runtime_status(step=11, durable_step=11), 11, id="the next step"),
        pytest.param(runtime_status(step=99, durable_step=40), 40, id="a later one"),
        pytest.param(
            runtime_status(step=12, durable_step=10), None, id="a save before the request"
        ),
        pytest.param(runtime_status(step=10, durable_step=10), None, id="the step of the request"),
        pytest.param(
            runtime_status(step=10, durable_step=10, state=State.FINISHED), 10, id="the last step"
        ),
        pytest.param(
            runtime_status(step=10, durable_step=9, state=State.STOPPED), None, id="it stopped"
        ),
        pytest.param(None, None, id="no pod answers"),
    ],
)
def test_it_has_saved_when_a_step_after_the_request_is_durable(
    runtime: Status | None, step: int | None
) -> None:
    expected = None if step is None else replace(asked(), state=SaveState.SAVED, step=step)
    assert served(job(asked(), runtime)) == expected


# --- when it has failed ---------------------------------------------------------------------------
def test_why_a_save_fails_is_the_answer_at_once() -> None:
    failing = runtime_status(step=11, durable_step=5, save_message=DISK_FULL)
    expected = answer(SaveState.NOT_SAVED, NOW + 1, attempts=1, step=10, message=DISK_FULL)
    assert served(job(asked(), failing), NOW + 1) == expected


def test_a_failure_before_the_request_does_not_count_while_there_is_time() -> None:
    old = runtime_status(step=10, durable_step=5, save_message=DISK_FULL)
    first = served(job(None, old))
    assert first == asked(message=DISK_FULL)
    assert served(job(first, old), NOW + MIN_ATTEMPT_S - 1) is None
    saved = replace(old, durableStep=11, saveMessage="")
    assert served(job(first, saved)) == replace(first, state=SaveState.SAVED, step=11, message="")
    late = served(job(first, old), NOW + MIN_ATTEMPT_S)
    assert late
    assert (late.state, late.message) == (SaveState.NOT_SAVED, DISK_FULL)


@pytest.mark.parametrize(
    ("runtime", "observed", "reason"),
    [
        pytest.param(TRAINS, {}, "it saved nothing within 60 s", id="nothing happens"),
        pytest.param(None, {}, "none of its pods answers", id="silent"),
        pytest.param(
            TRAINS,
            {"save_refusal": "no such call"},
            "no such call",
            id="a runtime that has no saves",
        ),
    ],
)
def test_when_the_time_of_the_last_attempt_is_over_the_reason_is_named(
    runtime: Status | None, observed: dict[str, str], reason: str
) -> None:
    last = asked(attempts=MAX_ATTEMPTS)
    assert served(job(last, runtime, **observed), NOW + MIN_ATTEMPT_S - 1) is None
    failed = served(job(last, runtime, **observed), NOW + MIN_ATTEMPT_S)
    assert failed
    assert (failed.state, failed.message) == (SaveState.NOT_SAVED, reason)


def test_a_job_with_long_steps_or_saves_has_more_time_and_no_job_has_it_without_end() -> None:
    slow = replace(TRAINS, stepSeconds=50.0, saveSeconds=50.0)
    assert served(job(asked(), slow), NOW + 299) is None
    assert served(job(asked(), slow), NOW + 300) == asked(NOW + 300, attempts=2)
    endless = replace(TRAINS, stepSeconds=1e12)
    assert served(job(asked(), endless), NOW + MAX_ATTEMPT_S) is not None


def test_a_time_that_lies_ahead_does_not_stop_the_request_from_ending() -> None:
    """Of a leader whose clock was ahead, or of a user."""
    ahead = asked(NOW + 1e6, attempts=MAX_ATTEMPTS)
    failed = served(job(ahead))
    assert failed
    assert failed.state == SaveState.NOT_SAVED


def test_a_job_that_never_answers_is_asked_a_bounded_number_of_times() -> None:
    current: SaveAnswer | None = None
    now = NOW
    states = []
    while current is None or not current.is_final:
        current = served(job(current), now) or current
        assert current
        states.append((current.state, current.attempts))
        now += MIN_ATTEMPT_S
    assert states == [
        *((SaveState.ASKED, attempt) for attempt in range(1, MAX_ATTEMPTS + 1)),
        (SaveState.NOT_SAVED, MAX_ATTEMPTS),
    ]
