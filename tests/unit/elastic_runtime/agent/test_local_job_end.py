"""How a local job ends: its exit code, and which pods were killed."""

import subprocess

import pytest

from elastic_runtime.agent import local_job


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        pytest.param([0, 0], 0, id="finished"),
        pytest.param([-9, 0, 0], 0, id="others finish without a pod that was killed"),
        pytest.param([-9, 43], 43, id="another leaves, with the state"),
        pytest.param([43, 0], 43, id="some left"),
        pytest.param([0, 1], 1, id="an error stays one when others finish"),
        pytest.param([-9, 3, 43], 3, id="an error, not that another pod was killed"),
        pytest.param([-9, -15], 137, id="all were killed"),
    ],
)
def test_exit_code_is_that_of_an_error_else_of_those_that_were_not_killed(
    codes: list[int], expected: int
) -> None:
    assert local_job.exit_code(codes, is_shared=True) == expected


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        pytest.param([0, 0], 0, id="finished"),
        pytest.param([-9, 0], 137, id="nobody did the work of the one that was killed"),
        pytest.param([-9, 43], 137, id="nor is its state there"),
        pytest.param([-15, 43], 43, id="stopped before it could handle the signal"),
        pytest.param([-9, 3], 3, id="an error"),
    ],
)
def test_a_killed_pod_counts_if_each_runs_a_command_of_its_own(
    codes: list[int], expected: int
) -> None:
    assert local_job.exit_code(codes, is_shared=False) == expected


@pytest.mark.parametrize(
    ("ending", "lines"),
    [
        pytest.param(
            "kill -KILL $$",
            ["pod 1 was killed by signal 9; the job does not start it again"],
            id="killed",
        ),
        pytest.param("kill -TERM $$", [], id="stopped before it could handle the signal"),
        pytest.param("exit 1", [], id="it says itself why it failed"),
    ],
)
def test_a_pod_that_was_killed_is_named_once(ending: str, lines: list[str]) -> None:
    named = list[str]()
    with subprocess.Popen(["sh", "-c", ending]) as process:
        local_job.report_kill(1, process, named.append)
    assert named == lines
