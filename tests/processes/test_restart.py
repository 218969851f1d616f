"""A script that was written for torchrun is restarted in its pods at each new size."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastic_runtime import contract
from tests.harness.local_job import Job
from tests.harness.restarted_job import (
    AT_TWO_SIZES,
    STEPS_PER_CHECKPOINT,
    has_undisturbed_losses,
    resizes_and_a_kill,
    script_of,
    steps_in,
    trains_on,
)
from tests.marks import LONG
from tests.paths import TREE

pytestmark = pytest.mark.processes

SCRIPT = (TREE / "examples" / "porting" / "restarted.py").read_text()
DCP_SCRIPT = (TREE / "examples" / "porting" / "restarted_dcp.py").read_text()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, SCRIPT)
    job.command = ["--restart", "--", "train.py", "1000000", "0.005"]
    yield job
    job.kill()


def test_resizes_repeat_no_step_and_a_killed_script_goes_on_from_its_checkpoint(job: Job) -> None:
    job.start(0, 1)
    trains_on(job, world=2)
    job.start(2)
    trains_on(job, world=3)
    job.resize(2)
    job.until(lambda s: s.ceded(2) and s.parked == (2,))
    steps = trains_on(job, world=2)
    assert steps == [*range(1, len(steps) + 1)]

    os.kill(script_of(job, 1), signal.SIGKILL)
    after = trains_on(job, world=2)
    repeated = [step for step in after if after.count(step) > 1]
    assert len({*repeated}) <= STEPS_PER_CHECKPOINT

    assert job.stop() == [contract.EXIT_LEFT_ON_REQUEST] * 3
    last = steps_in(job.directory)[-1]["step"]
    job.start(0)
    assert trains_on(job, world=1)[-5:] >= [last + 1]
    has_undisturbed_losses(job.directory, job.env)


@LONG
@AT_TWO_SIZES
def test_shards_are_saved_by_one_number_of_ranks_and_loaded_by_another(
    job: Job, large: int, small: int
) -> None:
    (job.directory / "train.py").write_text(DCP_SCRIPT)
    resizes_and_a_kill(job, large, small)
    has_undisturbed_losses(job.directory, job.env)


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


@LONG
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
