"""A mistake in a script ends its job at once, with one line from every worker that met it."""

import subprocess
import sys
from pathlib import Path

import pytest

from elastic_runtime import contract
from tests.harness.local_job import SCRIPT, Job
from tests.marks import LONG

pytestmark = pytest.mark.processes

SECOND = "\nSession(model, optimizer, samples=97, micro_batches=10)\nfor step in session"
MISTAKES = [
    pytest.param(
        ("step.backward(", "("),
        "had no step.backward(loss): call it once for each micro-batch",
        id="loss.backward left in",
    ),
    pytest.param(
        ("samples=97", "samples=0"),
        "samples is 0: give the length of the dataset, at least 1",
        id="no samples",
    ),
    pytest.param(
        ("\nfor step in session", SECOND),
        "this process has a session already, and a job has one: put all networks into one model",
        id="two sessions",
    ),
    pytest.param(
        ("    for batch in step:", "    torch.distributed.barrier()\n    for batch in step:"),
        "the script uses torch.distributed, which only the session does here: remove the call",
        id="a barrier left in",
    ),
    pytest.param(
        ("Linear(64, 64)", "Linear(64, 64, bias=False)"),
        "the newest checkpoint is not of this script: Error(s) in loading state_dict for",
        id="a checkpoint of another model",
    ),
]


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """A directory with the checkpoint of a correct script."""
    job = Job(tmp_path, SCRIPT, steps=2)
    job.start(0)
    assert job.pods[0].wait(120) == 0
    return tmp_path


def run_to_failure(job: Job) -> None:
    """Its only pod ends with exit code 1."""
    job.start(0)
    try:
        assert job.pods[0].wait(120) == 1
    finally:
        job.kill()


def test_workers_without_a_micro_batch_are_in_the_status(tmp_path: Path) -> None:
    job = Job(tmp_path, SCRIPT.replace("micro_batches=10", "micro_batches=1"))
    job.start(0, 1)
    try:
        job.until(lambda s: s.message.startswith("2 workers share 1 micro-batches, so 1 of them"))
        job.resize(1)
        job.until(lambda s: s.size == 1 and s.message == "")
    finally:
        job.kill()


def test_a_worker_that_leaves_the_loop_early_does_not_leave_its_pod_waiting(tmp_path: Path) -> None:
    leave = "    if step.number == 4 and session.local_rank == 1:\n        break\n"
    job = Job(tmp_path, SCRIPT.replace("    for batch in step:", f"{leave}    for batch in step:"))
    job.env[contract.RANKS_ENV] = "2"
    run_to_failure(job)
    output = job.output()
    assert "step 4 is not committed: the script left the loop over session.steps(" in output
    assert "the script ended before its last step" in output


def test_a_script_whose_session_never_begins_does_not_end_its_job_as_complete(
    tmp_path: Path,
) -> None:
    job = Job(tmp_path, SCRIPT.partition("for step in session")[0])
    run_to_failure(job)
    assert job.output().count("the script ended before the first step of its session") == 1


# Pod 1 fails as soon as it has imported us.
BROKEN_POD = """from elastic_runtime import Session
import os
if os.environ["JOB_COMPLETION_INDEX"] == "1" and not os.path.exists("repaired"):
    raise RuntimeError("no data\\nand a second line")
"""


@LONG
def test_a_failure_before_the_session_is_in_the_status_until_the_pod_trains(tmp_path: Path) -> None:
    job = Job(tmp_path, SCRIPT.replace("from elastic_runtime import Session\n", BROKEN_POD))
    job.start(0, 1)
    try:
        assert job.pods[1].wait(120) == 1
        message = job.until(lambda s: s.message != "").message
        assert message == "pod 1 gave up: train.py, line 11: RuntimeError: no data"
        (tmp_path / "repaired").touch()
        job.start(1)
        job.trains(2)
        assert job.until(lambda s: s.step > 0).message == ""
    finally:
        job.kill()


@pytest.mark.parametrize("call", ["Session(model)", "Session(model, optimizer, micro_batches=0)"])
def test_a_job_of_one_prints_a_mistake_in_one_line_too(tmp_path: Path, call: str) -> None:
    job = Job(tmp_path, SCRIPT.replace("session = Session(", f"{call}\nsession = Session("))
    result = subprocess.run(
        [sys.executable, "train.py", "1", "0"],
        cwd=tmp_path,
        env=job.env,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    [line] = result.stderr.splitlines()
    assert line.startswith("elastic_runtime: train.py, line 17: ")
    assert "micro_batches" in line


@pytest.mark.parametrize(("change", "line"), MISTAKES)
def test_a_mistake_ends_the_job_with_one_line(
    trained: Path, change: tuple[str, str], line: str
) -> None:
    script = SCRIPT.replace(*change)
    assert script != SCRIPT
    job = Job(trained, script, steps=4)
    output = trained / "pod-0.txt"
    output.unlink()
    run_to_failure(job)
    text = output.read_text()
    lines = [line for line in text.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, text
    assert lines[0].startswith("elastic_runtime: train.py, line ")
    assert line in lines[0]
    assert text.count('"rank died"') == 1
