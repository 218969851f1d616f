"""A script under `--restart` that hangs is killed, and all ranks start again in their pods."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastic_runtime import contract
from tests.harness.local_job import Job, children
from tests.harness.restarted_job import after_a_loss, script_of, trains_on
from tests.marks import LONG
from tests.paths import TREE

pytestmark = [pytest.mark.processes, LONG]
STEP = "        losses = torch.zeros(1)\n"
HANG = """
        hang = Path("hang-" + os.environ["RANK"])
        if hang.exists():
            hang.unlink()
            while True:
                time.sleep(1)
"""
RESTARTED = (TREE / "examples" / "porting" / "restarted.py").read_text()
SCRIPT = RESTARTED.replace(STEP, HANG + STEP)
TIMEOUT_S = "4"


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, SCRIPT)
    job.command = ["--restart", "--", "train.py", "1000000", "0.005"]
    yield job
    job.kill()


def test_a_frozen_rank_is_found_and_all_start_again_in_their_pods(job: Job) -> None:
    job.env[contract.LIVENESS_TIMEOUT_ENV] = TIMEOUT_S
    job.start(0, 1)
    trains_on(job, world=2, beyond=12)
    workers = [children(pod.pid) for pod in job.pods.values()]
    os.kill(script_of(job, 1), signal.SIGSTOP)
    job.until(lambda s: "it has been stopped by a signal" in s.message)
    after_a_loss(job, world=2)
    assert [children(pod.pid) for pod in job.pods.values()] == workers
    assert "the script hangs: it has been stopped" in (job.directory / "pod-1.txt").read_text()
    job.stop()


def test_a_rank_that_sleeps_while_others_wait_in_a_collective_is_found(job: Job) -> None:
    job.env[contract.STEP_TIMEOUT_ENV] = TIMEOUT_S
    job.start(0, 1)
    trains_on(job, world=2, beyond=12)
    (job.directory / "hang-1").touch()
    job.until(lambda s: "hung: it has not called stop_requested" in s.message)
    after_a_loss(job, world=2)
    # Its stacks.
    assert "in main" in (job.directory / "pod-1.txt").read_text()
    job.stop()


def test_without_a_timeout_of_the_users_a_long_step_is_no_hang(job: Job) -> None:
    """As with torchrun: it may be an evaluation. The steps are known to the status."""
    job.start(0, 1)
    known = trains_on(job, world=2, beyond=12)[-1]
    assert job.until(lambda s: s.step >= known).stepSeconds > 0
    os.kill(script_of(job, 1), signal.SIGSTOP)
    stopped = time.monotonic()
    job.until(lambda _: time.monotonic() > stopped + float(TIMEOUT_S))
    os.kill(script_of(job, 1), signal.SIGCONT)
    steps = trains_on(job, world=2)
    assert steps == [*range(1, len(steps) + 1)]
    assert "hangs" not in job.output()
    job.stop()
