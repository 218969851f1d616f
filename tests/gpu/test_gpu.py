"""On real GPUs: `pytest -m gpu`. With one, NCCL in one process and jobs of one; with two, jobs of
two that resize and lose a rank."""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from elastic_runtime.agent.worker_process import NCCL_DEFAULTS
from elastic_runtime.contract import State, Status
from elastic_runtime.distributed import nccl
from elastic_runtime.distributed.gloo import HashStore
from elastic_runtime.distributed.group import Group
from tests.harness.local_job import Job, check_exactly_once, undisturbed_losses

pytestmark = [pytest.mark.gpu, pytest.mark.processes]
TWO = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs")
# In double precision: at another size sums are in another order, and losses are compared to one
# part in a million.
SCRIPT = """
import os, sys, time, torch
from torch.distributed.fsdp import fully_shard
from elastic_runtime import Deterministic, Session, Sharded
device = torch.device("cuda", int(os.environ.get("JOB_COMPLETION_INDEX", "0")) % GPUS)
torch.manual_seed(0)
data, noise = torch.randn(97, 64).double().to(device), torch.randn(97, 8).double().to(device)  # (samples, width)
model = torch.nn.Sequential(torch.nn.Linear(64, 63), torch.nn.Tanh(), torch.nn.BatchNorm1d(63), torch.nn.Linear(63, 8)).double().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

def wrap(model, mesh):
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)

session = Session(
    model, optimizer, samples=97, micro_batches=10, micro_batch_size=3, strategy=STRATEGY, checkpoint="save", journal="log"
)
for step in session.steps(int(sys.argv[1])):
    for batch in step:
        time.sleep(float(sys.argv[2]))  # a step that takes its time
        step.backward((model(data[batch.indices]) - noise[batch.indices]).square().mean())
    step.clip(0.5)
"""
STRATEGIES = ["None", "Deterministic()", "Sharded(wrap)", "Sharded(wrap, peer_copy_every=4)"]


def script(strategy: str, gpus: int) -> str:
    return SCRIPT.replace("STRATEGY", strategy).replace("GPUS", str(gpus))


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    job = Job(tmp_path, script(request.param, max(torch.cuda.device_count(), 1)))
    yield job
    job.kill()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[float]]:
    """The losses of the first steps of the same script, replicated, run plainly."""
    return partial(
        undisturbed_losses, tmp_path_factory.mktemp("undisturbed"), script("None", 1), []
    )


@pytest.fixture
def communicator(monkeypatch: pytest.MonkeyPatch) -> object:
    """Of one rank, connected; as a rank's parent would have it."""
    for name, value in NCCL_DEFAULTS.items():
        monkeypatch.setenv(name, value)
    made = nccl.make(HashStore(), 0, 1)
    nccl.connect(made, torch.device("cuda:0"), Group(1, 0, 1))
    return made


def test_a_sum_is_there_when_it_was_waited_for(communicator: nccl.SingleRankGroup) -> None:
    # (elements,)
    given = torch.full((1 << 24,), 3.0, device="cuda:0")
    nccl.Work(Group(1, 0, 1), communicator.allreduce([given])).wait()
    assert given.sum() == 3 << 24
    nccl.abort([communicator])


def test_a_cut_frees_who_waits_for_a_sum_that_does_not_come(communicator: nccl.SingleRankGroup) -> None:
    """The stream it is queued behind is busy for seconds."""
    group = Group(1, 0, 1)
    group._communicators.append(communicator)
    torch.cuda._sleep(10_000_000_000)  # type: ignore[no-untyped-call]
    call = nccl.Work(group, communicator.allreduce([torch.ones(1, device="cuda:0")]))
    began = time.monotonic()
    threading.Timer(0.2, group.abort).start()
    with pytest.raises(RuntimeError, match="was aborted"):
        call.wait()
    assert time.monotonic() - began < 2
    torch.cuda.synchronize()
    until_aborted(communicator)


def goes_on(before: Status, now: Status) -> bool:
    return (
        now.generation > before.generation
        and now.step > before.step
        and now.state == State.TRAINING
    )


def until_aborted(communicator: nccl.SingleRankGroup, seconds: float = 30) -> None:
    """Afterwards it takes no more."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            communicator.allreduce([torch.ones(1, device="cuda:0")])
        except RuntimeError:
            return
        time.sleep(0.05)
    raise AssertionError(f"not aborted within {seconds} s")


@pytest.mark.parametrize("job", STRATEGIES, indirect=True)
def test_a_job_of_one_trains_saves_and_goes_on(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0)
    job.trains(1)
    job.stop()
    before = check_exactly_once(job, undisturbed)
    job.start(0)
    again = job.trains(1)
    assert (again.durableStep, again.step > before) == (before, True)
    job.stop()
    check_exactly_once(job, undisturbed)


@pytest.mark.parametrize("job", ["None"], indirect=True)
def test_two_ranks_on_one_gpu_are_told(job: Job) -> None:
    (job.directory / "train.py").write_text(script("None", 1))
    job.start(0, 1)
    job.until(lambda _: "ranks 0 and 1 have their model on the same GPU" in job.said())


@TWO
@pytest.mark.parametrize("job", STRATEGIES, indirect=True)
def test_a_job_of_two_shrinks_grows_and_trains_as_if_it_had_not(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    job.trains(2)
    for size in (1, 2):
        job.resize(size)
        job.trains(size)
    job.stop()
    check_exactly_once(job, undisturbed)


@TWO
@pytest.mark.parametrize("job", ["None", "Deterministic()", "Sharded(wrap, shard_group_size=1)"], indirect=True)
def test_a_killed_rank_costs_the_step_in_flight_only(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    first = job.trains(2)
    for rank in (1, 0):
        job.kill_rank(rank)
        job.until(partial(goes_on, first))
        first = job.trains(2)
    job.stop()
    check_exactly_once(job, undisturbed)


@TWO
@pytest.mark.parametrize("job", ["Sharded(wrap, peer_copy_every=4)"], indirect=True)
def test_a_lost_part_without_a_copy_takes_the_job_back_to_the_newest_spares(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    first = job.trains(2, beyond=6)
    job.kill_rank(1)
    job.until(
        lambda s: (
            s.generation > first.generation
            and s.step > first.step + 4
            and s.state == State.TRAINING
        )
    )
    job.stop()
    expected = undisturbed(1)
    for line in job.lines("steps-*"):
        assert line["loss"] == pytest.approx(expected[line["step"] - 1], rel=1e-6), (
            f"step {line['step']}"
        )
    assert "continuing from the newest peer copies" in job.said()
