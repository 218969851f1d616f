"""Evaluations with a mistake, of sharded models, and behind the loop."""

import pytest

from elastic_runtime import contract
from elastic_runtime.contract import State
from tests.harness.evaluating_job import (
    LAST_EVALUATION,
    SCRIPT,
    SCRIPT_WITH_LOSSES,
    Alone,
    check,
    evaluates,
    evaluating,
    is_evaluating,
    results,
    wait_until,
)
from tests.harness.local_job import Job
from tests.marks import LONG

pytestmark = pytest.mark.processes


@pytest.fixture
def job(job: Job) -> Job:
    return evaluating(job)


# --- mistakes -------------------------------------------------------------------------------------


@LONG
@pytest.mark.parametrize("rank", [0, 1])
def test_an_evaluation_on_some_ranks_only_is_told_by_all(job: Job, rank: int) -> None:
    change = ("if step.number % 5 == 0:", f"if step.number == 5 and session.rank == {rank}:")
    (job.directory / "train.py").write_text(SCRIPT.replace(*change))
    # Alone, it would be right.
    job.env[contract.SIZES_ENV] = "2,8"
    job.start(0, 1)
    for index in (0, 1):
        assert job.pods[index].wait(60) == 1, job.output()
        text = (job.directory / f"pod-{index}.txt").read_text()
        assert "session.evaluate was called by some workers, and others went on without it" in text


def test_an_error_that_the_script_catches_on_one_rank_is_told(job: Job) -> None:
    caught = """        try:
            evaluate(step.number)
        except KeyError:
            pass
"""
    script = SCRIPT.replace("        evaluate(step.number)\n", caught)
    raising = "    if session.rank == 1:\n        raise KeyError(1)\n    answers = model("
    (job.directory / "train.py").write_text(script.replace("    answers = model(", raising))
    job.start(0, 1)
    assert job.pods[1].wait(60) == 1
    assert "was caught by the script" in (job.directory / "pod-1.txt").read_text()


# --- sharded models -------------------------------------------------------------------------------


@LONG
@pytest.mark.parametrize("questions", ["41", "3"])
def test_a_sharded_model_is_evaluated_at_every_size(job: Job, questions: str) -> None:
    job.env |= {"STRATEGY": "fsdp", "QUESTIONS": questions}
    job.start(0, 1, 2)
    job.trains(3, beyond=6)
    for size in (1, 2):
        job.resize(size)
        job.trains(size, beyond=6)
    if questions == "41":
        # Few micro-batches would be over before the resize.
        (job.directory / "slow").touch()
        wait_until(lambda: is_evaluating(job), job)
    job.resize(3)
    job.until(lambda s: s.size == 3 and s.state == State.TRAINING)
    (job.directory / "slow").unlink(missing_ok=True)
    job.trains(3, beyond=6)
    job.stop()
    check_sharded(job, int(questions))


def check_sharded(job: Job, questions: int) -> None:
    """Alike on all ranks of a step, but for rounding; every sample counts once."""
    losses: dict[int, float] = {}
    for line in results(job):
        if line["complete"]:
            assert line["sums"]["count"] == questions == sum(line["sums"]["by_class"])
            expected = losses.setdefault(line["step"], line["sums"]["loss"])
            assert line["sums"]["loss"] == pytest.approx(expected, rel=1e-5)
    assert losses


@LONG
def test_a_shard_that_is_lost_in_an_evaluation_takes_the_job_back(job: Job) -> None:
    job.env["STRATEGY"] = "peer-copies"
    (job.directory / "train.py").write_text(SCRIPT_WITH_LOSSES)
    job.start(0, 1, 2)
    job.trains(3, beyond=6)
    request = job.directory / "pass-1"
    request.touch()
    wait_until(lambda: not request.exists(), job)
    after = job.trains(3)
    evaluates(job, after.step + 5)
    job.stop()
    check_sharded(job, 41)
    assert "continuing from the newest peer copies" in job.output()


# --- behind the loop ------------------------------------------------------------------------------


@LONG
def test_it_evaluates_behind_the_loop_also_without_a_rank_that_has_ended(
    job: Job, alone: Alone
) -> None:
    script = SCRIPT.replace(LAST_EVALUATION, f"if session.rank != 1:\n    {LAST_EVALUATION}")
    (job.directory / "train.py").write_text(script)
    job.arguments = ("10", "0.01")
    job.start(0, 1, 2)
    job.pods[0].wait(120)
    last = [line for line in results(job) if line["step"] == 10]
    assert {line["rank"] for line in last} >= {0}
    check(job, alone)
