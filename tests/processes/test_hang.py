"""Processes that hang: each is detected, its stacks are logged, and it is restarted. That costs the
step in flight."""

import json
import os
import signal
import time
from collections.abc import Callable

import pytest

from elastic_runtime import contract
from elastic_runtime.contract import State
from tests.harness import local_job
from tests.harness.local_job import Job, check_exactly_once, children
from tests.marks import LONG

pytestmark = pytest.mark.processes
HANG = """
import os, sys, time
from pathlib import Path

def hang_while_exists(file):
    while file.exists():
        time.sleep(0.05)

def call_that_holds_pythons_lock(file):
    if file.exists():
        file.unlink()
        # Other threads ask for the lock only after this time.
        interval = sys.getswitchinterval()
        sys.setswitchinterval(60)
        began = time.monotonic()
        while time.monotonic() < began + 3:
            pass
        print("held the lock for", time.monotonic() - began)
        sys.setswitchinterval(interval)
"""
BACKWARD = "        step.backward("
CALL = f'        hang_while_exists(Path("hang-" + os.environ.get("{contract.INDEX_ENV}", "")))\n'
HOLD = CALL.replace("hang_while_exists", "call_that_holds_pythons_lock").replace("hang-", "hold-")
SCRIPT = HANG + local_job.SCRIPT.replace(BACKWARD, CALL + HOLD + BACKWARD)


@pytest.fixture
def job(job: Job) -> Job:
    job.env[contract.STEP_TIMEOUT_ENV] = "5"
    return job


def log_lines(job: Job, index: int, message: str) -> list[dict[str, str]]:
    """The lines of a pod's log with this message."""
    text = (job.directory / f"pod-{index}.txt").read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in lines if line["message"] == message]


def test_a_frozen_rank_is_detected_and_restarted(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    """And then a rank in an endless loop."""
    job.start(0, 1, 2)
    first = job.trains(3, beyond=12)
    os.kill(children(job.pods[1].pid)[0], signal.SIGSTOP)
    job.until(lambda s: s.generation > first.generation)
    assert "has not answered" in log_lines(job, 1, "rank hangs")[0]["why"]
    assert "stopped" in log_lines(job, 1, "stacks")[0]["stacks"]
    second = job.trains(3, beyond=12)
    lock = job.directory / "hang-2"
    lock.touch()
    third = job.until(lambda s: s.generation > second.generation)
    assert "others wait for its step" in log_lines(job, 2, "rank hangs")[0]["why"]
    stacks = [line["stacks"] for line in log_lines(job, 2, "stacks")]
    assert any("in hang_while_exists" in text for text in stacks)
    # Both times every pod logged the stacks of its ranks.
    assert [len(log_lines(job, index, "stacks")) for index in (0, 1)] == [2, 2]
    lock.unlink()
    assert job.trains(3).step > third.step
    assert [len(log_lines(job, index, "rank died")) for index in range(3)] == [0, 1, 1]
    job.stop()
    check_exactly_once(job, undisturbed)


@LONG
def test_a_rank_that_computes_while_it_holds_pythons_lock_is_not_taken_for_a_frozen_one(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    before = job.trains(2, beyond=12)
    (job.directory / "hold-1").touch()
    output = job.directory / "pod-1.txt"
    job.until(lambda _: "held the lock for" in output.read_text())
    after = job.trains(2)
    assert (after.generation, log_lines(job, 1, "rank hangs")) == (before.generation, [])
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_frozen_agent_is_left_out_and_rejoins(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2)
    job.trains(3)
    os.kill(job.pods[2].pid, signal.SIGSTOP)
    job.trains(2)
    os.kill(job.pods[2].pid, signal.SIGCONT)
    job.trains(3)
    # Without the coordinator the ranks train on.
    os.kill(job.pods[0].pid, signal.SIGSTOP)
    before = max(line["step"] for line in job.lines("steps-*"))
    deadline = time.monotonic() + 60
    while max(line["step"] for line in job.lines("steps-1-0")) < before + 20:
        assert time.monotonic() < deadline, "the ranks do not train on"
        time.sleep(0.05)
    os.kill(job.pods[0].pid, signal.SIGCONT)
    assert job.until(lambda s: s.step >= before + 20).state == State.TRAINING
    assert job.trains(3).size == 3
    job.stop()
    check_exactly_once(job, undisturbed)
