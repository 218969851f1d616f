"""Jobs that evaluate (tests/processes/scripts/evaluate.py), and what their results must be."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elastic_runtime import contract
from tests.harness.local_job import LOST, SCRIPTS, Job, check_exactly_once

SCRIPT = (SCRIPTS / "evaluate.py").read_text()
EVALUATION = """    if step.number % 5 == 0:
        evaluate(step.number)
"""
LAST_EVALUATION = "evaluate(session.step)\n"
WITHOUT = SCRIPT.replace(EVALUATION, "").replace(LAST_EVALUATION, "")
# Evaluates between two steps, in a loop that is not the session's.
LOOP = """for step in session.steps(int(sys.argv[1])):
"""
BETWEEN_STEPS = (
    SCRIPT.replace(EVALUATION, "").replace(LOOP, "while step := session.begin(int(sys.argv[1])):\n")
).replace(
    LAST_EVALUATION,
    """    if session.commit() and session.step % 5 == 0:
        evaluate(session.step)
evaluate(session.step)
""",
)
# The script in a process that is lost, on request, in a pass or in the sum over ranks.
LOSSES = (
    LOST
    + """
from elastic_runtime.training import evaluation_sums
from elastic_runtime.training.evaluation_passes import EvaluationPasses, Ranks

def lose_in_pass(self, call, ranks, micro_batch):
    lost(f"pass-{ranks.rank}")
    return run_pass(self, call, ranks, micro_batch)

def lose_before_sum(self, data):
    lost(f"before-{self.rank}")
    return gather(self, data)

def lose_after_sum(packed, micro_batches):
    lost(f"after-{session.rank}")
    return total(packed, micro_batches)

run_pass, EvaluationPasses._pass = EvaluationPasses._pass, lose_in_pass
gather, Ranks.all_gather_bytes = Ranks.all_gather_bytes, lose_before_sum
total, evaluation_sums.total = evaluation_sums.total, lose_after_sum
"""
)
SCRIPT_WITH_LOSSES = LOSSES + SCRIPT


class Alone:
    """The results of the same script in one process, and the losses of its training."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.known: dict[str, list[dict[str, Any]]] = {}
        # By how many samples are evaluated.
        self.losses: dict[str, list[float]] = {}

    def results(self, steps: int, questions: str) -> dict[int, Any]:
        lines = self.known.get(questions, [])
        if not lines or lines[-1]["step"] < steps:
            directory = self.directory / f"{questions}-{steps}"
            job = run_alone(directory, SCRIPT, steps, QUESTIONS=questions)
            lines = self.known[questions] = [*job.lines("results-*")]
            self.losses[questions] = [line["loss"] for line in job.lines("steps-*")]
        return {line["step"]: line["sums"] for line in lines}


def evaluating(job: Job) -> Job:
    """A job whose script opens its results before it trains."""
    (job.directory / "log").mkdir()
    job.env["QUESTIONS"] = "41"
    return job


def loses_a_rank(job: Job, loss: str) -> None:
    """Three ranks train; one is lost at this place of an evaluation, and all evaluate again."""
    job.start(0, 1, 2)
    job.trains(3, beyond=6)
    request = job.directory / loss
    request.touch()
    wait_until(lambda: not request.exists(), job)
    after = job.trains(3)
    evaluates(job, after.step + 5)
    job.stop()


def run_alone(directory: Path, script: str, steps: int, **env: str) -> Job:
    directory.mkdir()
    job = Job(directory, script, steps)
    (directory / "log").mkdir()
    subprocess.run(
        [sys.executable, "train.py", str(steps), "0"], cwd=directory, env=job.env | env, check=True
    )
    return job


def results(job: Job) -> list[dict[str, Any]]:
    return sorted(job.lines("results-*"), key=lambda line: (line["step"], line["rank"]))


def check(job: Job, alone: Alone) -> None:
    """All results are those of one process, bit by bit, and so are the samples of the training.

    A rank that is parked in an evaluation gets no result, if the job is further when it returns.
    """
    lines = results(job)
    expected = alone.results(max(line["step"] for line in lines), job.env["QUESTIONS"])
    complete = [line for line in lines if line["complete"]]
    assert complete
    assert {line["step"] for line in lines} == {line["step"] for line in complete}
    for line in complete:
        assert line["sums"] == expected[line["step"] // 5 * 5], line
    check_exactly_once(job, lambda _: alone.losses[job.env["QUESTIONS"]])


def evaluates(job: Job, step: int, seconds: float = 60) -> None:
    """Waits until a result of this step or a later one is there."""
    wait_until(lambda: any(line["step"] >= step for line in results(job)), job, seconds)


def wait_until(condition: Callable[[], bool], job: Job, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, job.output()
        time.sleep(0.05)


def is_evaluating(job: Job) -> bool:
    """It stands at a step in which it evaluates, and trains no further."""
    before = job.call("GET", contract.STATUS_PATH).step
    time.sleep(0.5)
    return before > 0 and before % 5 == 0 and job.call("GET", contract.STATUS_PATH).step == before
