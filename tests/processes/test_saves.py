"""Checkpoints of real jobs: the leading rank orders them, all ranks write them, and the status says
whether they are durable."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.checkpointing import restore
from elastic_runtime.contract import State
from tests.harness.local_job import SCRIPTS, Job
from tests.marks import LONG

pytestmark = pytest.mark.processes
SCRIPT = (SCRIPTS / "saves.py").read_text()
# os.fsync or os.mkdir fail with the error named in the file `failing-fsync` or `failing-mkdir`; if
# a pod is named there too, only in that one.
FAILING_DISK = f"""
import errno, os
from pathlib import Path

index = os.environ.get("{contract.INDEX_ENV}", "")

def failing(name, call):
    def wrapped(*arguments, **options):
        request = Path(f"failing-{{name}}")
        error, *pods = request.read_text().split() if request.exists() else [""]
        if error and index in (pods or [index]):
            code = getattr(errno, error)
            raise OSError(code, os.strerror(code))
        return call(*arguments, **options)
    return wrapped

os.fsync, os.mkdir = failing("fsync", os.fsync), failing("mkdir", os.mkdir)
"""


@pytest.fixture
def job_with_failing_disk(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, FAILING_DISK + SCRIPT)
    yield job
    job.kill()


def save(job: Job) -> int:
    """Requests a checkpoint and returns its step once it is durable."""
    before = job.call("POST", contract.CHECKPOINT_PATH)
    return job.until(lambda s: s.durableStep > before.step).durableStep


def test_saves_continue_through_joins_and_losses(job: Job) -> None:
    """The last one is made by the members, without the pod that was left out."""
    job.start(0, 1)
    job.trains(2)
    save(job)
    job.start(2)
    job.trains(3)
    job.kill_rank(1)
    job.until(lambda s: s.size == 2)
    job.trains(3)
    durable_step = save(job)
    job.kill_pod(0)
    job.start(0)
    # A new leading rank may have saved once more.
    assert job.trains(3).durableStep >= durable_step
    assert save(job) > durable_step
    job.resize(2)
    job.trains(2)
    job.resize(0)
    end = job.until(lambda s: s.state == State.STOPPED)
    newest = restore.newest_intact(job.directory / "save")
    assert newest
    assert (newest.step, newest.digest) == (end.step, end.digest)
    assert end.durableStep == end.step


@LONG
def test_a_stop_waits_until_the_directory_can_be_written(job: Job) -> None:
    """A failed save is reported and costs no step."""
    job.start(0, 1)
    first = job.trains(2)
    (job.directory / "save").write_text("a file in place of the directory")
    job.call("POST", contract.CHECKPOINT_PATH)
    status = job.until(lambda s: "failed" in s.message)
    assert status.durableStep == 0
    job.until(lambda s: s.step > first.step + 3)
    job.resize(0)
    job.until(lambda s: s.state == State.STOPPING and f"saving step {s.step}" in s.message)
    (job.directory / "save").unlink()
    end = job.until(lambda s: s.state == State.STOPPED)
    assert end.durableStep == end.step
    assert end.message == ""


@pytest.mark.parametrize(
    ("call", "error", "cause"),
    [
        pytest.param("fsync", "EIO 1", "rank 1", id="EIO of one worker"),
        pytest.param("fsync", "ENOSPC", os.strerror(errno.ENOSPC), id="ENOSPC", marks=LONG),
        pytest.param("mkdir", "EROFS", os.strerror(errno.EROFS), id="EROFS", marks=LONG),
    ],
)
def test_a_failing_disk_costs_no_step_and_no_older_save(
    job_with_failing_disk: Job, call: str, error: str, cause: str
) -> None:
    """The status says why until a save succeeds again."""
    job = job_with_failing_disk
    request = job.directory / f"failing-{call}"
    job.start(0, 1)
    job.trains(2)
    durable_step = save(job)
    request.write_text(error)
    job.call("POST", contract.CHECKPOINT_PATH)
    status = job.until(lambda s: "failed" in s.message)
    assert os.strerror(getattr(errno, error.split()[0])) in status.saveMessage
    assert cause in status.saveMessage
    assert status.saveMessage in status.message
    assert (status.durableStep, status.state) == (durable_step, State.TRAINING)
    job.until(lambda s: s.step > status.step + 3)
    newest = restore.newest_intact(job.directory / "save")
    assert newest
    assert newest.step == durable_step
    request.unlink()
    assert save(job) > durable_step
    end = job.call("GET", contract.STATUS_PATH)
    assert (end.message, end.saveMessage) == ("", "")


@LONG
def test_a_job_waits_for_a_full_disk_after_its_last_step(job_with_failing_disk: Job) -> None:
    """A shrink does not wait for it."""
    job = job_with_failing_disk
    job.steps = 20
    (job.directory / "failing-fsync").write_text("ENOSPC")
    job.start(0, 1)
    job.until(lambda s: "saving step 20" in s.message and os.strerror(errno.ENOSPC) in s.message)
    job.resize(1)
    job.until(lambda s: s.ceded(1))
    (job.directory / "failing-fsync").unlink()
    assert [pod.wait(60) for pod in job.pods.values()] == [0, 0]
    newest = restore.newest_intact(job.directory / "save")
    assert newest
    assert newest.step == 20
