"""Pod 0 may die like any other: the members choose another coordinator, and train on."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from elastic_runtime.contract import Status
from tests.harness import local_job
from tests.harness.local_job import Job, check_exactly_once, children
from tests.marks import LONG, in_long

pytestmark = pytest.mark.processes
SCRIPT = local_job.SCRIPT
# From the loss of pod 0 to the next step of the others.
GOAL_S = 5.0
# They take longer than several heartbeats.
STEPS_OF_HEARTBEATS = 40


def last_step(job: Job) -> int:
    """Of all pods, by their journals."""
    return max((line["step"] for line in job.lines("steps-*")), default=0)


def seconds_until_next_generation_trains(job: Job, before: Status) -> float:
    """Until a step is committed in a later generation than before, by the journals alone."""
    began = time.monotonic()
    while not any(line["generation"] > before.generation for line in job.lines("steps-*")):
        assert time.monotonic() < began + 60, f"training stands still\n{job.output()}"
        time.sleep(0.02)
    return time.monotonic() - began


def test_members_train_on_when_pod_0_is_killed_and_it_comes_back_as_a_member(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2, 3)
    job.trains(4)
    job.resize(4)
    # Until the members have heard of the order, which each heartbeat tells them.
    before = job.trains(4, beyond=STEPS_OF_HEARTBEATS)
    job.kill_pod(0)
    assert seconds_until_next_generation_trains(job, before) < GOAL_S
    without = job.trains(3)
    assert (without.wanted, without.cession) == (4, "c1")
    job.start(0)
    back = job.trains(4)
    assert back.generation > without.generation
    second_life = (job.directory / "pod-0.txt").read_text().rpartition("pod up")[2]
    assert "follows" in second_life
    assert "leads" not in second_life
    # Pods beyond the size leave, whichever pod coordinates.
    job.resize(3)
    job.trains(3)
    job.stop()
    check_exactly_once(job, undisturbed)


@pytest.mark.parametrize("frozen", ["agent", *in_long("pod")])
def test_members_train_on_while_pod_0_is_frozen(
    job: Job, undisturbed: Callable[[int], list[float]], frozen: str
) -> None:
    job.start(0, 1, 2, 3)
    before = job.trains(4)
    agent = job.pods[0].pid
    processes = [agent, *(children(agent) if frozen == "pod" else [])]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    assert seconds_until_next_generation_trains(job, before) < GOAL_S
    without = job.trains(3, beyond=20)
    for process in processes:
        os.kill(process, signal.SIGCONT)
    back = job.trains(4)
    assert back.generation > without.generation
    job.stop()
    check_exactly_once(job, undisturbed)


@LONG
@pytest.mark.parametrize("victim", [1, 4], ids=["stays", "leaves"])
@pytest.mark.parametrize("after_s", [0, 0.1, 0.4])
def test_a_rank_that_is_killed_in_a_take_back_after_pod_0_was_replaced_stops_nobody(
    job: Job, undisturbed: Callable[[int], list[float]], victim: int, after_s: float
) -> None:
    """Once no step followed for 30 s: a group waited for calls that could not end."""
    job.start(0, 1, 2, 3, 4)
    before = job.trains(5)
    job.kill_pod(0)
    seconds_until_next_generation_trains(job, before)
    job.start(0)
    job.trains(5)
    job.resize(4)
    # The moment of the fault is what is tried.
    time.sleep(after_s)
    job.kill_rank(victim)
    stopped_at = last_step(job)
    began = time.monotonic()
    job.until(lambda status: status.step > stopped_at and status.size == 4, 60)
    assert time.monotonic() - began < 2 * GOAL_S
    job.trains(4)
    job.stop()
    check_exactly_once(job, undisturbed)
