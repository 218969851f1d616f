"""Saves of real jobs: ordered by the leading rank, made by all, known to be durable or known not to
be."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.checkpointing import restore
from elastic_runtime.contract import State
from tests.harness.local_job import Job

pytestmark = pytest.mark.processes
SCRIPT = """
import sys, time, torch
from elastic_runtime import Session
torch.set_num_threads(1)
torch.manual_seed(0)
data = torch.randn(97, 300)  # (samples, width)
model = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.Tanh(), torch.nn.Linear(300, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
session = Session(model, optimizer, samples=97, micro_batches=6, micro_batch_size=3, checkpoint="save", journal="log")
for step in session.steps(int(sys.argv[1])):
    for batch in step:
        time.sleep(float(sys.argv[2]))
        step.backward(model(data[batch.indices]).square().mean())
"""


ILL = """
import errno, os
from pathlib import Path
def ill(call, real):
    def called(*args, **options):
        for word in Path(f"ill-{call}").read_text().split() if Path(f"ill-{call}").exists() else []:
            raise OSError(getattr(errno, word), os.strerror(getattr(errno, word)))
        return real(*args, **options)
    return called
os.fsync, os.mkdir = ill("fsync", os.fsync), ill("mkdir", os.mkdir)  # what the disk says
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, SCRIPT)
    yield job
    job.kill()


def saved(job: Job) -> int:
    """The step of a save asked for now, once it is durable."""
    before = job.call("POST", contract.CHECKPOINT_PATH)
    return job.until(lambda s: s.durableStep > before.step).durableStep


def test_saves_go_on_through_joins_and_losses_and_the_last_one_is_the_members_own(job: Job) -> None:
    job.start(0, 1)
    job.trains(2)
    saved(job)
    job.start(2)
    job.trains(3)
    job.kill_rank(1)
    job.until(lambda s: s.size == 2)
    job.trains(3)
    durable = saved(job)
    job.kill_pod(0)
    job.start(0)
    # a new leading rank may have saved once more
    assert job.trains(3).durableStep >= durable
    assert saved(job) > durable
    job.resize(2)
    job.trains(2)
    # pod 2 waits outside: it has nothing to save
    job.resize(0)
    end = job.until(lambda s: s.state == State.STOPPED)
    found = restore.newest_intact(job.directory / "save")
    assert found
    assert (found.step, found.digest) == (end.step, end.digest) == (end.durableStep, end.digest)


def test_a_place_that_takes_no_save_stops_no_training_and_is_said_and_the_end_waits_for_it(
    job: Job,
) -> None:
    (job.directory / "save").write_text("a file, where there should be a directory")
    job.start(0, 1)
    first = job.trains(2)
    job.call("POST", contract.CHECKPOINT_PATH)
    said = job.until(lambda s: "failed" in s.message)
    assert said.durableStep == 0
    job.until(lambda s: s.step > first.step + 3)
    job.resize(0)
    job.until(lambda s: s.state == State.STOPPING and f"saving step {s.step}" in s.message)
    (job.directory / "save").unlink()
    end = job.until(lambda s: s.state == State.STOPPED)
    assert end.durableStep == end.step
    assert end.message == ""


@pytest.mark.parametrize(
    ("call", "answer"), [("fsync", "EIO"), ("fsync", "ENOSPC"), ("mkdir", "EROFS")]
)
def test_a_disk_that_fails_while_training_costs_no_step_and_no_older_save_and_is_said_until_it_is_well(
    tmp_path: Path, call: str, answer: str
) -> None:
    job = Job(tmp_path, ILL + SCRIPT)
    try:
        job.start(0, 1)
        job.trains(2)
        durable = saved(job)
        (tmp_path / f"ill-{call}").write_text(answer)
        job.call("POST", contract.CHECKPOINT_PATH)
        said = job.until(lambda s: "failed" in s.message)
        assert os.strerror(getattr(errno, answer)) in said.message
        assert (said.durableStep, said.state) == (durable, State.TRAINING)
        job.until(lambda s: s.step > said.step + 3)
        found = restore.newest_intact(tmp_path / "save")
        assert found
        assert found.step == durable
        (tmp_path / f"ill-{call}").unlink()
        assert saved(job) > durable
        assert job.call("GET", contract.STATUS_PATH).message == ""
    finally:
        job.kill()


def test_a_disk_that_is_full_after_the_last_step_is_waited_for_and_a_shrink_does_not_wait(
    tmp_path: Path,
) -> None:
    job = Job(tmp_path, ILL + SCRIPT, steps=20)
    try:
        (tmp_path / "ill-fsync").write_text("ENOSPC")
        job.start(0, 1)
        job.until(
            lambda s: "saving step 20" in s.message and os.strerror(errno.ENOSPC) in s.message
        )
        job.resize(1)
        job.until(lambda s: s.ceded(1))
        (tmp_path / "ill-fsync").unlink()
        assert [pod.wait(40) for pod in job.pods.values()] == [0, 0]
        found = restore.newest_intact(tmp_path / "save")
        assert found
        assert found.step == 20
    finally:
        job.kill()
