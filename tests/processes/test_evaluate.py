"""An evaluation over all ranks: every sample counts once, whatever happens to ranks meanwhile."""

import os
import signal
import time
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.checkpointing import restore
from elastic_runtime.contract import State
from tests.harness.evaluating_job import (
    LAST_EVALUATION,
    SCRIPT,
    SCRIPT_WITH_LOSSES,
    WITHOUT,
    Alone,
    check,
    evaluates,
    evaluating,
    is_evaluating,
    loses_a_rank,
    results,
    run_alone,
    wait_until,
)
from tests.harness.local_job import Job, children
from tests.marks import LONG, in_long
from tests.processes.test_hang import log_lines

pytestmark = pytest.mark.processes


@pytest.fixture
def job(job: Job) -> Job:
    return evaluating(job)


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("questions", ["3", *in_long("41")])
def test_results_are_equal_bit_by_bit_at_every_size(job: Job, alone: Alone, questions: str) -> None:
    """Also with fewer micro-batches than ranks; and the training is as without evaluations."""
    job.env["QUESTIONS"] = questions
    job.start(0, 1, 2)
    job.trains(3, beyond=12)
    for size in (1, 2, 3):
        job.resize(size)
        job.trains(size, beyond=6)
    job.stop()
    assert {line["world"] for line in results(job)} == {1, 2, 3}
    check(job, alone)


@LONG
def test_an_evaluation_does_not_change_the_training(tmp_path: Path, alone: Alone) -> None:
    alone.results(30, "41")
    job = run_alone(tmp_path / "without", WITHOUT, 30)
    assert [line["loss"] for line in job.lines("steps-*")] == alone.losses["41"][:30]


# --- lost ranks -----------------------------------------------------------------------------------


@LONG
@pytest.mark.parametrize("loss", ["pass-1", "after-0", "pass-0", "before-1", "after-1"])
def test_it_begins_again_when_a_rank_is_lost(job: Job, alone: Alone, loss: str) -> None:
    (job.directory / "train.py").write_text(SCRIPT_WITH_LOSSES)
    loses_a_rank(job, loss)
    check(job, alone)


# --- resizes and stops ----------------------------------------------------------------------------


@LONG
def test_a_change_of_the_size_interrupts_it(job: Job, alone: Alone) -> None:
    """It would take an hour; a shrink and a growth do not wait for it."""
    job.env["QUESTIONS"] = "40000"
    job.start(0, 1)
    (job.directory / "slow").touch()
    job.until(lambda s: s.state == State.TRAINING and s.size == 2)
    began = time.monotonic()
    job.resize(1)
    job.until(lambda s: s.ceded(1))
    job.resize(2)
    job.until(lambda s: s.state == State.TRAINING and s.size == 2)
    assert time.monotonic() - began < 30
    assert not results(job)


def test_sigterm_interrupts_it_and_saves(job: Job) -> None:
    """It would take a minute."""
    job.env["QUESTIONS"] = "1200"
    job.start(0, 1)
    job.trains(2, beyond=6)
    (job.directory / "slow").touch()
    wait_until(lambda: is_evaluating(job), job)
    step = job.call("GET", contract.STATUS_PATH).step
    began = time.monotonic()
    assert job.stop() == [contract.EXIT_LEFT_ON_REQUEST] * 2
    assert time.monotonic() - began < 15
    newest = restore.newest_intact(job.directory / "save")
    assert newest
    assert newest.step == step


STOP = """
    if session.rank == 1 and step.number == 5:
        session.stop()
"""


@LONG
def test_session_stop_in_it_ends_it_and_the_job(job: Job) -> None:
    body = "    answers = model("
    script = SCRIPT.replace(body, STOP + body).replace(LAST_EVALUATION, "")
    (job.directory / "train.py").write_text(script)
    job.env["QUESTIONS"] = "1200"
    job.start(0, 1)
    assert [pod.wait(120) for pod in job.pods.values()] == [0, 0], job.output()
    assert max(line["step"] for line in job.lines("steps-*")) == 6
    ended = [line for line in results(job) if line["step"] == 5]
    assert [line["complete"] for line in ended] == [False, False]


# --- hangs ----------------------------------------------------------------------------------------

HANG = '    while Path(f"hang-{session.rank}").exists():\n        time.sleep(0.01)\n'


@LONG
def test_a_long_evaluation_is_no_hang_and_a_stuck_one_is(job: Job, alone: Alone) -> None:
    body = "    answers = model("
    (job.directory / "train.py").write_text(SCRIPT.replace(body, HANG + body))
    job.env[contract.STEP_TIMEOUT_ENV] = "2"
    job.start(0, 1)
    (job.directory / "slow").touch()
    # 21 micro-batches of 0.2 s.
    evaluates(job, 5)
    assert not log_lines(job, 0, "rank hangs") + log_lines(job, 1, "rank hangs")
    (job.directory / "slow").unlink()
    hang = job.directory / "hang-1"
    hang.touch()
    wait_until(lambda: bool(log_lines(job, 1, "rank hangs")), job, 60)
    [line] = log_lines(job, 1, "rank hangs")
    assert "others wait for its part of an evaluation" in line["why"]
    hang.unlink()
    after = job.trains(2)
    evaluates(job, after.step + 5)
    job.stop()
    check(job, alone)


@LONG
def test_a_frozen_rank_is_detected_in_an_evaluation(job: Job, alone: Alone) -> None:
    job.start(0, 1)
    job.trains(2, beyond=6)
    (job.directory / "slow").touch()
    wait_until(lambda: is_evaluating(job), job)
    os.kill(children(job.pods[1].pid)[0], signal.SIGSTOP)
    wait_until(lambda: bool(log_lines(job, 1, "rank hangs")), job, 60)
    (job.directory / "slow").unlink()
    after = job.trains(2)
    evaluates(job, after.step + 5)
    job.stop()
    check(job, alone)
