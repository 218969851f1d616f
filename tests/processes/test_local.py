"""Real processes, real torch, on this machine: whatever happens to a job, its steps, samples and
losses are those of an undisturbed run."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import control_server
from elastic_runtime.checkpointing import restore
from elastic_runtime.contract import State, Status
from tests.harness.local_job import (
    FOREVER,
    SCRIPT,
    Job,
    check_exactly_once,
    children,
    free_port,
    undisturbed_losses,
)
from tests.paths import TREE

pytestmark = pytest.mark.processes


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, SCRIPT)
    yield job
    job.kill()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[float]]:
    """The losses of the first steps of the same script, run plainly."""
    return partial(undisturbed_losses, tmp_path_factory.mktemp("undisturbed"), SCRIPT, [])


def test_a_job_that_shrinks_and_grows_trains_as_if_it_had_not(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2, 3)
    job.trains(4)
    ranks = [children(job.pods[i].pid) for i in (0, 1)]
    asked = job.resize(2)
    assert (asked.wanted, asked.cession) == (2, "c1")
    shrunk = job.until(
        lambda s: s.ceded(2) and s.parked == (2, 3) and s.durableStep > 0 and s.pauseSeconds > 0
    )
    assert (shrunk.size, shrunk.generation > 1, len(shrunk.digest)) == (2, True, 64)
    assert shrunk.stepSeconds > 0
    assert shrunk.loss > 0
    job.trains(2)
    # level, not event
    assert job.resize(2).generation == job.trains(2).generation
    job.resize(4)
    job.trains(4)
    # nobody was restarted
    assert ranks == [children(job.pods[i].pid) for i in (0, 1)]
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_killed_rank_costs_the_step_in_flight_only(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2)
    first = job.trains(3)
    # it leads, and holds the store
    job.kill_rank(0)
    second = job.until(
        lambda s: (
            s.generation > first.generation and s.step > first.step and s.state == State.TRAINING
        )
    )
    job.kill_rank(2)
    job.until(
        lambda s: (
            s.generation > second.generation and s.step > second.step and s.state == State.TRAINING
        )
    )
    job.trains(3)
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_lost_pod_0_is_replaced_without_the_disk(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2)
    job.trains(3)
    job.resize(3)
    was = job.trains(3)
    job.kill_pod(0)
    job.start(0)
    again = job.trains(3)
    assert again.step > was.step
    assert again.durableStep == 0
    assert (again.wanted, again.cession) == (3, "c1")
    # and once more, in the middle of a shrink
    job.resize(2)
    job.kill_pod(0)
    job.start(0)
    assert job.trains(2).step > again.step
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_stopped_job_goes_on_where_it_was_and_ends_well(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    first = job.trains(2)
    assert job.stop() == [contract.EXIT_LEFT_ON_REQUEST, contract.EXIT_LEFT_ON_REQUEST]
    before = check_exactly_once(job, undisturbed)
    job.steps = before + 60
    job.start(0, 1)
    again = job.until(lambda s: s.durableStep == before)
    # no number is used twice, though nobody is left who knew it
    assert again.generation > first.generation
    job.resize(2)
    # beyond the wanted size: it waits outside, and ends with the others
    job.start(2)
    assert [pod.wait(40) for pod in job.pods.values()] == [0, 0, 0]
    assert check_exactly_once(job, undisturbed) == before + 60


def test_size_0_saves_parks_everybody_and_can_be_taken_back(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    job.trains(2)
    job.resize(0)
    stopped = job.until(lambda s: s.ceded(0))
    assert (stopped.state, stopped.size, stopped.parked) == (State.STOPPED, 0, (0, 1))
    assert stopped.durableStep == stopped.step > 0
    job.kill_pod(0)
    # the new one knows nothing but what the others tell it
    job.start(0)
    again = job.until(lambda s: s.ceded(0))
    assert (again.step, again.durableStep, again.digest) == (
        stopped.step,
        stopped.step,
        stopped.digest,
    )
    job.resize(2)
    assert job.trains(2).step > stopped.step
    [first] = [line for line in job.lines("steps-1-0") if line["step"] == stopped.step + 1]
    # it was stopped, not paused
    assert "pause_ms" not in first
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_pod_that_is_told_to_go_leaves_at_the_end_of_a_step(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2)
    job.trains(3)
    job.pods[2].terminate()
    job.trains(2)
    assert job.pods[2].wait(20) == contract.EXIT_LEFT_ON_REQUEST
    with pytest.raises(control_server.Refused) as refused:
        job.call("GET", contract.STATUS_PATH, key=b"another")
    assert refused.value.status == 401
    job.stop()
    check_exactly_once(job, undisturbed)


def test_when_pod_0_is_sent_away_first_the_others_train_on_and_still_save_when_they_are_sent(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2)
    job.trains(3)
    job.pods[0].terminate()
    # of more than 0.06 s
    job.trains(2, beyond=40)
    assert job.stop() == [contract.EXIT_LEFT_ON_REQUEST] * 3
    found = restore.newest_intact(job.directory / "save")
    assert found
    assert found.step == check_exactly_once(job, undisturbed)


def test_a_job_whose_script_fails_at_the_same_step_whenever_it_is_tried_gives_up_as_a_whole(
    tmp_path: Path,
) -> None:
    """It goes back to its save and comes as far again; the pods that did not fail end with the
    first."""
    fails = "    if step.number == 3 and session.rank == 0: raise SystemExit('no such file')\n"
    (tmp_path / "train.py").write_text(
        SCRIPT.replace("    for batch in step:\n", fails + "    for batch in step:\n")
    )
    command = [
        sys.executable,
        "-m",
        "elastic_runtime",
        "--port",
        str(free_port()),
        "--local",
        "2",
        "train.py",
        str(FOREVER),
        "0.01",
    ]
    env = os.environ | {"PYTHONPATH": str(TREE), "OMP_NUM_THREADS": "1", contract.GRACE_ENV: "4"}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 1
    assert "pod 0 gave up (exit code 1)" in done.stderr


def test_the_command_runs_resizes_and_stops_a_job_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    of = [sys.executable, "-m", "elastic_runtime", "--port", str(free_port())]
    env = os.environ | {"PYTHONPATH": str(TREE), "OMP_NUM_THREADS": "1"}

    def ask(*words: str) -> Status:
        return contract.decode_status(
            subprocess.run([*of, *words], cwd=tmp_path, env=env, capture_output=True).stdout
            or b"{}"
        )

    with subprocess.Popen(
        [*of, "--local", "2", "train.py", str(FOREVER), "0.01"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.DEVNULL,
    ) as running:
        try:
            end = time.monotonic() + 30
            while ask("status").size != 2 and time.monotonic() < end:
                time.sleep(0.1)
            assert ask("resize", "1").wanted == 1
            while not ask("status").ceded(1) and time.monotonic() < end:
                time.sleep(0.1)
            assert ask("status").size == 1
        finally:
            running.terminate()
    assert running.returncode == contract.EXIT_LEFT_ON_REQUEST
