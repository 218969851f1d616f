"""Faults that meet other faults, or a resize: each costs at most the step in flight."""

import time
from collections.abc import Callable

import pytest

from elastic_runtime import contract
from elastic_runtime.contract import State
from tests.harness import local_job
from tests.harness.local_job import Job, check_exactly_once
from tests.marks import LONG, in_long

pytestmark = pytest.mark.processes
# A rank is lost while it sends or receives the state; rank 2 connects late. Each on request.
FAULTS = """
import time
from pathlib import Path
from elastic_runtime.distributed.group import Group

def losing(name, call):
    def wrapped(*arguments, **options):
        lost(f"lose-{name}")
        return call(*arguments, **options)
    return wrapped

def connect_late(self, *arguments):
    while self.rank == 2 and Path("late").exists():
        Path("connecting").touch()
        time.sleep(0.01)  # until the test removes the file
    return connect(self, *arguments)

Group.send, Group.receive = losing("sender", Group.send), losing("receiver", Group.receive)
connect, Group.connect = Group.connect, connect_late
"""
SCRIPT = local_job.LOST + FAULTS + local_job.SCRIPT


# --- losses ---------------------------------------------------------------------------------------


@LONG
def test_two_ranks_lost_at_once_and_a_whole_pod(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2, 3)
    first = job.trains(4)
    job.kill_rank(1)
    job.kill_rank(2)
    second = job.resumes(first, 4)
    job.kill_pod(3)
    third = job.resumes(second, 3)
    # The coordinator, and a rank of another pod.
    job.kill_pod(0)
    job.kill_rank(1)
    job.start(0)
    # There is no checkpoint: the state comes from the memory of the ranks that are left.
    assert job.resumes(third, 3).durableStep == 0
    job.stop()
    check_exactly_once(job, undisturbed)


@pytest.mark.parametrize("lost_rank", ["sender", *in_long("receiver")])
def test_a_rank_lost_while_a_joining_rank_receives_the_state(
    job: Job, undisturbed: Callable[[int], list[float]], lost_rank: str
) -> None:
    job.start(0, 1)
    first = job.trains(2)
    request = job.directory / f"lose-{lost_rank}"
    request.touch()
    job.start(2)
    job.resumes(first, 3)
    assert not request.exists(), "the rank was not lost"
    assert sum(path.read_text().count("rank died") for path in job.directory.glob("pod-*.txt")) == 1
    job.stop()
    check_exactly_once(job, undisturbed)


@LONG
def test_a_pod_of_two_ranks_shrinks_grows_and_loses_one(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.env[contract.RANKS_ENV] = "2"
    job.start(0, 1)
    job.trains(2)
    job.resize(1)
    job.until(lambda s: s.ceded(1) and s.parked == (1,))
    job.trains(1)
    job.resize(2)
    before = job.trains(2)
    # The agent restarts both ranks of the pod.
    job.kill_rank(1)
    job.resumes(before, 2)
    assert job.stop() == [contract.EXIT_LEFT_ON_REQUEST] * 2
    check_exactly_once(job, undisturbed)


# --- resizes that meet ----------------------------------------------------------------------------


@LONG
def test_a_size_requested_while_another_is_pending(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    job.trains(2)
    job.resize(3)
    job.start(2)
    job.until(lambda s: s.busy.startswith("training; getting ready"))
    # Shrink while a pod is about to join.
    job.resize(1)
    assert job.until(lambda s: s.ceded(1) and s.size == 1).wanted == 1
    # Grow while pods are parked, and shrink at once.
    job.resize(3)
    job.resize(2)
    job.trains(2)
    # Cancel a shrink after the pod has parked.
    job.resize(1)
    job.until(lambda s: 1 in s.parked)
    job.resize(3)
    assert job.trains(3).parked == ()
    job.stop()
    check_exactly_once(job, undisturbed)


@LONG
def test_a_shrink_requested_while_a_larger_group_forms(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    """All ranks go through the larger group, so none waits for the others elsewhere."""
    job.start(0, 1)
    first = job.trains(2)
    (job.directory / "late").touch()
    job.start(2)
    job.until(lambda _: (job.directory / "connecting").exists())
    assert job.resize(1).wanted == 1
    (job.directory / "late").unlink()
    assert job.until(lambda s: s.ceded(1) and s.size == 1).generation == first.generation + 2
    job.trains(1)
    job.stop()
    check_exactly_once(job, undisturbed)


# --- metrics --------------------------------------------------------------------------------------


def test_metrics_add_up_to_the_life_of_the_job(job: Job) -> None:
    began = time.monotonic()
    job.start(0, 1)
    before = job.trains(2)
    job.kill_rank(1)
    job.resumes(before, 2)
    job.resize(1)
    job.until(lambda s: s.ceded(1) and s.state == State.TRAINING)
    job.trains(1)
    metrics = job.metrics()
    lifetime_s = time.monotonic() - began
    assert metrics["recoveries_total"] >= 1
    assert metrics["resizes_total"] >= 1
    assert metrics["steps_total"] > 6
    assert metrics["samples_total"] == metrics["steps_total"] * 30
    seconds = {
        cause: metrics[f'seconds_total{{cause="{cause}"}}']
        for cause in ("train", "resize", "recover", "save", "wait")
    }
    assert min(seconds[cause] for cause in ("train", "resize", "recover", "wait")) > 0
    assert sum(seconds.values()) <= lifetime_s
    assert metrics["pod_deaths_total"] == 0
