"""Evaluations between two steps, in a loop that is not the session's.

A rank that joins begins the next step, and never comes to such an evaluation.
"""

import pytest

from elastic_runtime.contract import State
from tests.harness.evaluating_job import (
    BETWEEN_STEPS,
    LOSSES,
    Alone,
    check,
    evaluating,
    is_evaluating,
    loses_a_rank,
    wait_until,
)
from tests.harness.local_job import Job
from tests.marks import LONG

pytestmark = pytest.mark.processes
SCRIPT = LOSSES + BETWEEN_STEPS


@pytest.fixture
def job(job: Job) -> Job:
    assert BETWEEN_STEPS.count("session.commit") == 1
    return evaluating(job)


@LONG
@pytest.mark.parametrize("loss", ["pass-1", "after-0", "after-1"])
def test_it_begins_again_or_is_given_the_result_when_a_rank_is_lost(
    job: Job, alone: Alone, loss: str
) -> None:
    loses_a_rank(job, loss)
    assert "went on without it" not in job.output()
    check(job, alone)


@LONG
def test_ranks_join_and_leave_around_it(job: Job, alone: Alone) -> None:
    job.start(0, 1)
    job.trains(2, beyond=6)
    (job.directory / "slow").touch()
    wait_until(lambda: is_evaluating(job), job)
    job.start(2)
    (job.directory / "slow").unlink()
    job.trains(3, beyond=3)
    (job.directory / "slow").touch()
    wait_until(lambda: is_evaluating(job), job)
    job.resize(1)
    job.until(lambda s: s.ceded(1) and s.state == State.TRAINING)
    (job.directory / "slow").unlink()
    job.trains(1, beyond=6)
    job.stop()
    assert "went on without it" not in job.output()
    check(job, alone)
