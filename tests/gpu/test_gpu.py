"""On real GPUs: `pytest -m gpu`.

One GPU suffices for NCCL in one process and for jobs of one. With two GPUs, jobs of two ranks
resize and lose a rank.
"""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from elastic_runtime.agent.worker_process import NCCL_DEFAULTS
from elastic_runtime.contract import State
from elastic_runtime.distributed import nccl
from elastic_runtime.distributed.gloo import HashStore
from elastic_runtime.distributed.group import Group
from elastic_runtime.training.replica_check import own_digest
from tests.gpu.sharding import skip_if_refused
from tests.harness.local_job import Job, check_exactly_once, undisturbed_losses
from tests.paths import TREE

pytestmark = [pytest.mark.gpu, pytest.mark.processes]
TWO_GPUS = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs")
SCRIPT = (TREE / "tests" / "gpu" / "train.py").read_text()
ALL_STRATEGIES = pytest.mark.parametrize(
    "job", ["replicated", "deterministic", "fsdp", "peer-copies"], indirect=True
)
Losses = Callable[[int], list[float]]


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    if request.param not in ("replicated", "deterministic"):
        skip_if_refused()
    job = Job(tmp_path, SCRIPT)
    job.env["STRATEGY"] = request.param
    yield job
    job.kill()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Losses:
    """The losses of the first steps of the same script, replicated, in one process."""
    return partial(undisturbed_losses, tmp_path_factory.mktemp("undisturbed"), SCRIPT, [])


# --- NCCL in one process --------------------------------------------------------------------------


@pytest.fixture
def communicator(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of one rank, connected, with the environment that the agent gives a rank."""
    for name, value in NCCL_DEFAULTS.items():
        monkeypatch.setenv(name, value)
    communicator = nccl.make(HashStore(), 0, 1)
    nccl.connect(communicator, torch.device("cuda:0"), Group(1, 0, 1))
    return communicator


def wait_until_aborted(communicator: Any, timeout_s: float = 30) -> None:
    """Afterwards it refuses collectives. Raises AssertionError after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            communicator.allreduce([torch.ones(1, device="cuda:0")])
        except RuntimeError:
            return
        time.sleep(0.05)
    raise AssertionError(f"not aborted within {timeout_s} s")


def test_a_sum_is_complete_after_wait(communicator: Any) -> None:
    # (elements,)
    tensor = torch.full((1 << 24,), 3.0, device="cuda:0")
    nccl.Work(Group(1, 0, 1), communicator.allreduce([tensor])).wait()
    assert tensor.sum() == 3 << 24
    nccl.abort([communicator])


def test_an_abort_frees_a_call_that_waits_for_a_sum(communicator: Any) -> None:
    """The stream on which the sum is queued is busy for seconds."""
    group = Group(1, 0, 1)
    group._communicators.append(communicator)
    torch.cuda._sleep(10_000_000_000)  # type: ignore[no-untyped-call]
    work = nccl.Work(group, communicator.allreduce([torch.ones(1, device="cuda:0")]))
    began = time.monotonic()
    threading.Timer(0.2, group.abort).start()
    with pytest.raises(RuntimeError, match="was aborted"):
        work.wait()
    assert time.monotonic() - began < 2
    torch.cuda.synchronize()
    wait_until_aborted(communicator)


# --- jobs of one ----------------------------------------------------------------------------------


@ALL_STRATEGIES
def test_a_job_of_one_trains_saves_and_resumes(job: Job, undisturbed: Losses) -> None:
    job.start(0)
    job.trains(1)
    job.stop()
    last_step = check_exactly_once(job, undisturbed)
    job.start(0)
    resumed = job.trains(1)
    assert resumed.durableStep == last_step
    assert resumed.step > last_step
    job.stop()
    check_exactly_once(job, undisturbed)


@pytest.mark.parametrize("job", ["replicated"], indirect=True)
def test_two_ranks_on_one_gpu_are_refused(job: Job) -> None:
    job.env["GPUS"] = "1"
    job.start(0, 1)
    job.until(lambda _: "ranks 0 and 1 have their model on the same GPU" in job.output())


# --- jobs of two ----------------------------------------------------------------------------------


@TWO_GPUS
@ALL_STRATEGIES
def test_a_job_of_two_has_the_undisturbed_losses_after_resizes(
    job: Job, undisturbed: Losses
) -> None:
    job.start(0, 1)
    job.trains(2)
    for size in (1, 2):
        job.resize(size)
        job.trains(size)
    job.stop()
    check_exactly_once(job, undisturbed)


@TWO_GPUS
@pytest.mark.parametrize("job", ["replicated", "deterministic", "one-rank-shards"], indirect=True)
def test_a_killed_rank_costs_the_step_in_flight_only(job: Job, undisturbed: Losses) -> None:
    job.start(0, 1)
    before = job.trains(2)
    for rank in (1, 0):
        job.kill_rank(rank)
        before = job.resumes(before, 2)
    job.stop()
    check_exactly_once(job, undisturbed)


@TWO_GPUS
@pytest.mark.parametrize("job", ["peer-copies"], indirect=True)
def test_a_lost_shard_without_a_copy_takes_the_job_back_to_peer_copies(
    job: Job, undisturbed: Losses
) -> None:
    job.start(0, 1)
    before = job.trains(2, beyond=6)
    job.kill_rank(1)
    job.until(
        lambda s: (
            s.generation > before.generation
            and s.step > before.step + 4
            and s.state == State.TRAINING
        )
    )
    job.stop()
    expected = undisturbed(1)
    for line in job.lines("steps-*"):
        loss = expected[line["step"] - 1]
        assert line["loss"] == pytest.approx(loss, rel=1e-6), f"step {line['step']}"
    assert "continuing from the newest peer copies" in job.output()


def test_parameters_on_two_devices_are_compared() -> None:
    on_cpu = torch.ones(3)
    assert own_digest([on_cpu, on_cpu.cuda(), on_cpu.cuda()], 0, 1).any()
