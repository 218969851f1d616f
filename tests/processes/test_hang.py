"""Real processes that hang: each is found, shown and started again, and costs the step in flight
only."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.contract import State
from tests.harness import local_job
from tests.harness.local_job import Job, check_exactly_once, children, undisturbed_losses

pytestmark = pytest.mark.processes

HANGS = """
import os, time
from pathlib import Path

def wait_for_ever(lock):
    while lock.exists():
        time.sleep(0.05)
"""
BACKWARD = "        step.backward("
SCRIPT = HANGS + local_job.SCRIPT.replace(
    BACKWARD,
    (
        f'        wait_for_ever(Path("hang-" + os.environ.get("{contract.INDEX_ENV}", '
        f'"")))\n{BACKWARD}'
    ),
)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, SCRIPT)
    job.env[contract.STEP_TIMEOUT_ENV] = "5"
    yield job
    job.kill()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[float]]:
    return partial(undisturbed_losses, tmp_path_factory.mktemp("undisturbed"), SCRIPT, [])


def said(job: Job, index: int, message: str) -> list[dict[str, str]]:
    """The lines of a pod's log with this message."""
    lines = (
        line
        for line in (job.directory / f"pod-{index}.txt").read_text().splitlines()
        if line.startswith("{")
    )
    return [found for found in map(json.loads, lines) if found["message"] == message]


def test_a_frozen_rank_and_one_in_an_endless_loop_are_shown_and_replaced(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2)
    first = job.trains(3, beyond=12)
    # it holds everything, and says nothing
    os.kill(children(job.pods[1].pid)[0], signal.SIGSTOP)
    job.until(lambda s: s.generation > first.generation)
    assert "has not answered" in said(job, 1, "rank hangs")[0]["why"]
    assert "stopped" in said(job, 1, "stacks")[0]["stacks"]
    second = job.trains(3, beyond=12)
    lock = job.directory / "hang-2"
    lock.touch()
    third = job.until(lambda s: s.generation > second.generation)
    assert "others wait for its step" in said(job, 2, "rank hangs")[0]["why"]
    assert any("in wait_for_ever" in line["stacks"] for line in said(job, 2, "stacks"))
    # those of all ranks of the job, both times
    assert [len(said(job, i, "stacks")) for i in (0, 1)] == [2, 2]
    lock.unlink()
    assert job.trains(3).step > third.step
    assert [len(said(job, i, "rank died")) for i in range(3)] == [0, 1, 1]
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_frozen_parent_is_left_out_and_taken_back(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2)
    job.trains(3)
    os.kill(job.pods[2].pid, signal.SIGSTOP)
    job.trains(2)
    os.kill(job.pods[2].pid, signal.SIGCONT)
    job.trains(3)
    # nobody can be told anything, and nobody need be: the ranks train on
    os.kill(job.pods[0].pid, signal.SIGSTOP)
    before = max(line["step"] for line in job.lines("steps-*"))
    while max(line["step"] for line in job.lines("steps-1-0")) < before + 20:
        pass
    os.kill(job.pods[0].pid, signal.SIGCONT)
    assert job.until(lambda s: s.step >= before + 20).state == State.TRAINING
    assert job.trains(3).size == 3
    job.stop()
    check_exactly_once(job, undisturbed)
