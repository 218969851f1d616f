"""Whether a pod ends with its worker processes, and with which exit code."""

from dataclasses import dataclass

import pytest

from elastic_runtime.agent.worker_exit import (
    LEFT_EARLY,
    exit_code_after,
    how_it_ended,
    leaves_peers,
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
        pytest.param(None, Failed("no data"), LEFT_EARLY, id="early, after an earlier failure"),
    ],
)
def test_the_reason_of_an_end(code: int | None, failure: Failed | None, reason: str) -> None:
    assert how_it_ended(code, failure) == reason


@dataclass(frozen=True)
class Worker:
    left_early: bool = False
    joins: bool = False


LEFT = Worker(left_early=True)
LEFT_BEFORE_ITS_FIRST_GENERATION = Worker(left_early=True, joins=True)
TRAINS = Worker()
JOINS = Worker(joins=True)


@pytest.mark.parametrize(
    ("workers", "leaves"),
    [
        pytest.param([TRAINS, JOINS], False, id="none left"),
        pytest.param([LEFT, JOINS], True, id="the other waits for it"),
        pytest.param([LEFT, TRAINS], False, id="the other may have left too, and save its model"),
        pytest.param([LEFT, TRAINS, JOINS], True, id="one of the others waits"),
        pytest.param([LEFT_BEFORE_ITS_FIRST_GENERATION], False, id="a worker without others"),
        pytest.param([LEFT, LEFT_BEFORE_ITS_FIRST_GENERATION], False, id="all left"),
    ],
)
def test_a_worker_leaves_peers_that_wait_for_a_generation(
    workers: list[Worker], leaves: bool
) -> None:
    assert leaves_peers(workers) == leaves
