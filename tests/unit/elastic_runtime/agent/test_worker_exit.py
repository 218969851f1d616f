"""Whether a pod ends with its worker processes, and with which exit code."""

from dataclasses import dataclass

import pytest

from elastic_runtime.agent.worker_exit import (
    LEFT_EARLY,
    exit_code_after,
    how_it_ended,
    must_end_for_leaver,
    would_fail_again,
)
from elastic_runtime.contract import EXIT_LEFT_ON_REQUEST
from elastic_runtime.messages import Failed


@pytest.mark.parametrize(
    ("failed", "left_early", "leaving", "deaths", "code"),
    [
        pytest.param(None, False, False, 0, 0, id="all ended well"),
        pytest.param(None, True, False, 0, 1, id="script ended before its last step"),
        pytest.param(7, False, False, 1, None, id="first death: start again"),
        pytest.param(7, False, False, 3, None, id="last allowed death"),
        pytest.param(7, False, False, 4, 7, id="one death too many"),
        pytest.param(-9, False, False, 4, 1, id="killed by a signal too often"),
        pytest.param(255, False, False, 4, 1, id="a code that the Job would not count"),
        pytest.param(7, False, True, 1, EXIT_LEFT_ON_REQUEST, id="pod terminates anyway"),
        pytest.param(
            None, True, True, 0, EXIT_LEFT_ON_REQUEST, id="script ended early, and pod terminates"
        ),
        pytest.param(None, False, True, 0, 0, id="all ended well, and pod terminates"),
    ],
)
def test_exit_code_after(
    failed: int | None, left_early: bool, leaving: bool, deaths: int, code: int | None
) -> None:
    result = exit_code_after(
        failed,
        left_early=left_early,
        leaving=leaving,
        is_final=False,
        deaths=deaths,
        max_restarts=3,
    )
    assert result == code


@pytest.mark.parametrize(
    ("code", "failure", "reason"),
    [
        pytest.param(
            -9, None, "its process was killed by signal 9: see the pod's log", id="by a signal"
        ),
        pytest.param(
            3, None, "its script ended with exit code 3: see the pod's log", id="by an exit code"
        ),
        pytest.param(1, Failed("no data"), "no data", id="by an exception"),
        pytest.param(None, None, LEFT_EARLY, id="early"),
        pytest.param(None, Failed("no step"), "no step", id="early, with its cause"),
    ],
)
def test_the_reason_of_an_end(code: int | None, failure: Failed | None, reason: str) -> None:
    assert how_it_ended(code, failure) == reason


NO_DATA = Failed("no data")


@pytest.mark.parametrize(
    ("failure", "before", "has_trained", "expected"),
    [
        pytest.param(None, None, False, False, id="no exception, as after a signal"),
        pytest.param(None, NO_DATA, False, False, id="no exception, after one"),
        pytest.param(NO_DATA, None, False, False, id="first time"),
        pytest.param(NO_DATA, NO_DATA, False, True, id="twice the same before the first step"),
        pytest.param(NO_DATA, NO_DATA, True, False, id="twice the same, and it has trained"),
        pytest.param(NO_DATA, Failed("no disk"), False, False, id="another cause before"),
        pytest.param(
            Failed("no disk", may_heal=True),
            Failed("no disk", may_heal=True),
            False,
            False,
            id="twice the same, and outside the script",
        ),
        pytest.param(Failed("typo", is_mistake=True), None, False, True, id="a mistake"),
        pytest.param(
            Failed("typo", is_mistake=True), None, True, True, id="a mistake after training"
        ),
    ],
)
def test_would_fail_again(
    failure: Failed | None, before: Failed | None, has_trained: bool, expected: bool
) -> None:
    assert would_fail_again(failure, before, has_trained=has_trained) == expected


@dataclass(frozen=True)
class Worker:
    exit_code: int | None = None
    left_early: bool = False
    joins: bool = False


LEFT = Worker(0, left_early=True)
LEFT_BEFORE_ITS_FIRST_GENERATION = Worker(0, left_early=True, joins=True)
TRAINS = Worker()
JOINS = Worker(joins=True)
# It has reported the end of the job, or will: its last messages have not been read.
ENDED = Worker(0, joins=True)
FAILED = Worker(1, joins=True)


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        pytest.param([TRAINS, JOINS], False, id="none left"),
        pytest.param([LEFT, JOINS], True, id="the other waits for it"),
        pytest.param([LEFT, TRAINS], False, id="the other may have left too, and save its model"),
        pytest.param([LEFT, TRAINS, JOINS], True, id="one of the others waits"),
        pytest.param([LEFT_BEFORE_ITS_FIRST_GENERATION], False, id="a worker without others"),
        pytest.param([LEFT, LEFT_BEFORE_ITS_FIRST_GENERATION], False, id="all left"),
        pytest.param([LEFT, ENDED], False, id="the other waited, and has ended"),
        pytest.param([LEFT, FAILED], False, id="the other waited, and has failed"),
        pytest.param([LEFT, FAILED, JOINS], False, id="one failed while another waits"),
    ],
)
def test_a_pod_must_end_if_a_worker_waits_for_one_that_left_early(
    workers: list[Worker], expected: bool
) -> None:
    assert must_end_for_leaver(workers) == expected
