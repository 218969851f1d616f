"""A script whose own loop drives the steps: resizes and losses are those of the generator."""

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from elastic_runtime import contract
from tests.harness import local_job
from tests.harness.local_job import Job, check_exactly_once
from tests.marks import LONG
from tests.paths import TREE

pytestmark = pytest.mark.processes
# A rank is lost, on request, when it has all gradients and has not voted yet.
LOSE_IN_COMMIT = """
from elastic_runtime.training.transaction import StepTransaction

def lose_in_commit(self, step):
    is_reduced = reduce(self, step)
    lost(f"commit-{session.rank}")
    return is_reduced

reduce, StepTransaction._reduce = StepTransaction._reduce, lose_in_commit
"""
GENERATOR = "for step in session.steps(int(sys.argv[1])):"
# Each process logs what begin and commit returned.
LOOP = """
import json, os
log = None
while step := session.begin(int(sys.argv[1])):
    log = log or open(f"log/loop-{os.getpid()}.jsonl", "a", buffering=1)
"""
COMMIT = """
    line = {"number": step.number, "committed": session.commit()}
    log.write(json.dumps(line | {"step": session.step}) + "\\n")
"""
SCRIPT = (
    local_job.LOST + LOSE_IN_COMMIT + local_job.SCRIPT.replace(GENERATOR, LOOP).rstrip() + COMMIT
)


def check_loops(job: Job) -> int:
    """In every process a step that was not committed came again, and no other did.

    Returns how many were not committed.
    """
    failed = 0
    for path in job.directory.glob("log/loop-*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        for line, following in itertools.pairwise(lines):
            if line["committed"]:
                assert following["number"] >= line["step"] > line["number"], path.read_text()
            else:
                failed += 1
                assert following["number"] == line["number"] == line["step"], path.read_text()
    return failed


def test_a_loop_of_the_scripts_own_grows_shrinks_and_loses_ranks(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    job.trains(2)
    job.start(2)
    before = job.trains(3)
    job.kill_rank(1)
    before = job.resumes(before, 3)
    (job.directory / "commit-2").touch()
    before = job.resumes(before, 3)
    assert not (job.directory / "commit-2").exists()
    job.resize(1)
    job.until(lambda s: s.ceded(1))
    job.trains(1)
    job.resize(3)
    job.trains(3)
    assert job.stop() == [contract.EXIT_LEFT_ON_REQUEST] * 3
    check_exactly_once(job, undisturbed)
    assert check_loops(job) > 0


@LONG
def test_a_rank_that_hangs_between_commit_and_begin_is_started_again(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    hang = """
    if Path("hang").exists() and session.rank == 1:
        Path("hang").unlink()
        time.sleep(1e6)
"""
    (job.directory / "train.py").write_text(SCRIPT + hang)
    job.env[contract.STEP_TIMEOUT_ENV] = "3"
    job.start(0, 1)
    before = job.trains(2, beyond=12)
    (job.directory / "hang").touch()
    job.resumes(before, 2)
    assert not (job.directory / "hang").exists()
    job.stop()
    check_exactly_once(job, undisturbed)


@LONG
def test_a_worker_that_leaves_when_a_resize_is_ordered_does_not_leave_its_pod_waiting(
    job: Job,
) -> None:
    """Between `commit` and `begin`; the other ranks then wait for it in the next generation."""
    leaves = "    if session.rank == 1 and session._loop._left_generation >= 0:\n        break\n"
    (job.directory / "train.py").write_text(SCRIPT + leaves)
    job.env[contract.RANKS_ENV] = "2"
    job.start(0)
    job.trains(1)
    job.start(1)
    assert job.pods[0].wait(60) == 1
    assert "the script ended before its last step" in job.output()


@LONG
@pytest.mark.parametrize("end", ["by its last step", "by stop"])
def test_every_process_ends_with_the_job(job: Job, end: str) -> None:
    job.steps = 6 if end == "by its last step" else local_job.FOREVER
    stop = "    if session.rank == 1 and session.step == 6:\n        session.stop()\n"
    (job.directory / "train.py").write_text(SCRIPT + (stop if end == "by stop" else ""))
    job.start(0, 1)
    assert [pod.wait(120) for pod in job.pods.values()] == [0, 0], job.output()
    assert max(line["step"] for line in job.lines("steps-*")) == (6 if end != "by stop" else 7)


@LONG
def test_a_script_that_ends_without_the_last_begin_has_failed(job: Job) -> None:
    ends = "    if session.step == 3:\n        break\n"
    (job.directory / "train.py").write_text(SCRIPT + ends)
    job.start(0)
    assert job.pods[0].wait(120) == 1
    output = job.output()
    assert "the job has not ended, at step 3: the script ended after session.commit" in output
    assert "the script ended before its last step" in output


UNFINISHED = """
import torch
from elastic_runtime import Session
model = torch.nn.Linear(1, 1)
session = Session(model, torch.optim.SGD(model.parameters()), samples=9, micro_batches=1)
step = session.begin(5)
"""
BODY = """
for batch in step:
    step.backward(model(torch.ones(1, 1)).square().mean())
"""


@pytest.mark.parametrize(
    ("rest", "lines"),
    [
        pytest.param("", ["step 0 is not committed: the script ended between"], id="not committed"),
        pytest.param(
            BODY + "session.commit()",
            ["the job has not ended, at step 1: the script ended after session.commit; call"],
            id="not ended",
        ),
        pytest.param(
            "session.begin()", ["elastic_runtime: train.py, line 7: session.begin"], id="a mistake"
        ),
        pytest.param("step.backward(1)", ["elastic_runtime: train.py, line 7: "], id="in the body"),
    ],
)
def test_a_script_that_ends_too_early_prints_one_line(
    tmp_path: Path, rest: str, lines: list[str]
) -> None:
    (tmp_path / "train.py").write_text(UNFINISHED + rest)
    result = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(TREE)},
        capture_output=True,
        text=True,
    )
    printed = result.stderr.splitlines()
    assert len(printed) == len(lines), result.stderr
    assert all(line in text for line, text in zip(lines, printed, strict=True)), result.stderr
