"""Saves of real jobs: ordered by the leading rank, made by all, known to be durable or known not to be."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from elastic_runtime import contract, restore
from elastic_runtime.contract import State
from tests.elastic_job import Job

pytestmark = pytest.mark.processes
SCRIPT = """
import sys, time, torch
from elastic_runtime.session import Session
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
    assert job.trains(3).durableStep >= durable  # a new leading rank may have saved once more
    assert saved(job) > durable
    job.resize(2)
    job.trains(2)
    job.resize(0)  # pod 2 waits outside: it has nothing to save
    end = job.until(lambda s: s.state == State.STOPPED)
    found = restore.newest(job.directory / "save")
    assert found
    assert (found.step, found.digest) == (end.step, end.digest) == (end.durableStep, end.digest)


def test_a_place_that_takes_no_save_stops_no_training_and_is_said_and_the_end_waits_for_it(job: Job) -> None:
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
