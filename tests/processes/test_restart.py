"""A script that was written for torchrun is restarted in its pods at each new size."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastic_runtime import contract
from tests.harness.local_job import Job, children, free_port
from tests.harness.restarted_job import steps_in, trains_on
from tests.paths import TREE

pytestmark = pytest.mark.processes

SCRIPT = (TREE / "examples" / "porting" / "restarted.py").read_text()
STEPS_PER_CHECKPOINT = 10


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, SCRIPT)
    job.command = ["--restart", "--", "train.py", "1000000", "0.005"]
    yield job
    job.kill()


def undisturbed_steps(job: Job, last: int) -> dict[int, float]:
    """The losses of a run of one process, by step."""
    alone = job.directory / "alone"
    alone.mkdir()
    ranks = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    subprocess.run(
        [sys.executable, "../train.py", str(last), "0"],
        cwd=alone,
        env=job.env | ranks | {"MASTER_PORT": str(free_port())},
        check=True,
    )
    return {line["step"]: line["loss"] for line in steps_in(alone)}


def test_resizes_repeat_no_step_and_a_killed_script_goes_on_from_its_checkpoint(job: Job) -> None:
    job.start(0, 1)
    trains_on(job, world=2)
    job.start(2)
    trains_on(job, world=3)
    job.resize(2)
    job.until(lambda s: s.ceded(2) and s.parked == (2,))
    steps = trains_on(job, world=2)
    assert steps == [*range(1, len(steps) + 1)]

    [worker] = children(job.pods[1].pid)
    os.kill(children(worker)[0], signal.SIGKILL)
    after = trains_on(job, world=2)
    repeated = [step for step in after if after.count(step) > 1]
    assert len({*repeated}) <= STEPS_PER_CHECKPOINT

    assert job.stop() == [contract.EXIT_LEFT_ON_REQUEST] * 3
    last = steps_in(job.directory)[-1]["step"]
    job.start(0)
    assert trains_on(job, world=1)[-5:] >= [last + 1]
    losses = undisturbed_steps(job, last)
    for line in steps_in(job.directory):
        if line["step"] in losses:
            assert line["loss"] == pytest.approx(losses[line["step"]], rel=1e-4)


def test_a_script_that_reaches_its_end_ends_its_job(job: Job) -> None:
    job.command = ["--restart", "--", "train.py", "3", "0"]
    job.start(0, 1)
    assert [pod.wait(120) for pod in job.pods.values()] == [0, 0], job.output()


# Rank 1 has nothing to do in the end. Rank 0 fails the first time when it saves its model.
UNEQUAL_ENDS = """
import os, pathlib, sys, time
if os.environ["RANK"] == "0":
    while not pathlib.Path("ended").exists():
        time.sleep(0.02)
    tried = pathlib.Path("tried")
    if not tried.exists():
        tried.touch()
        sys.exit(5)
    pathlib.Path("model").touch()
else:
    pathlib.Path("ended").touch()
"""


def test_a_job_is_complete_when_the_scripts_of_all_ranks_have_ended(job: Job) -> None:
    (job.directory / "train.py").write_text(UNEQUAL_ENDS)
    job.start(0, 1)
    assert [pod.wait(120) for pod in job.pods.values()] == [0, 0], job.output()
    assert (job.directory / "model").exists()


def test_a_script_that_fails_again_and_again_ends_its_job_with_its_exit_code(job: Job) -> None:
    (job.directory / "train.py").write_text("import sys; sys.exit(9)")
    job.start(0)
    assert job.pods[0].wait(120) == 9
    assert "failed 4 times in a row, with exit code 9" in job.output()
