"""Whether a pod ends with its worker processes, and with which exit code."""

import pytest

from elastic_runtime.agent.worker_exit import exit_code_after, how_it_ended
from elastic_runtime.contract import EXIT_LEFT_ON_REQUEST


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
    ("code", "words"),
    [(-9, "its process was killed by signal 9"), (3, "its script ended with exit code 3")],
)
def test_an_end_without_a_cause_is_told_by_its_code(code: int, words: str) -> None:
    assert how_it_ended(code) == f"{words}: see the pod's log"
