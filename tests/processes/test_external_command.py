"""A command that does not use elastic_runtime is asked by a signal to save, and its job reports
to Cede as any other job does."""

import os
import subprocess
import sys

import pytest

from elastic_runtime import contract
from elastic_runtime.contract import State
from tests.harness.local_job import Job

pytestmark = pytest.mark.processes

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
events = "events-" + os.environ["JOB_COMPLETION_INDEX"]
signals = []
signal.signal(signal.SIGUSR1, lambda *_: signals.append(1))
assert not {"LOCAL_RANK", "CEDE_LOCAL_RANK", "RANK", "WORLD_SIZE"} & {*os.environ}

def record(event):
    with open(events, "a") as file:
        file.write(event + "\\n")

record("began")
while not Path("end").exists():
    time.sleep(0.02)
    if signals:
        record("saved")
        if sys.argv[1] == "exits":
            sys.exit(7)
        Path("done").touch()
        signals.clear()
sys.exit(int(sys.argv[2]))
"""


def set_command(job: Job, after_saving: str, exit_code: int = 0) -> None:
    """`after_saving`: "exits" or "stays"."""
    job.command = [
        "--signal",
        "USR1",
        "--done",
        "done" if after_saving == "stays" else "",
        "--",
        sys.executable,
        "train.py",
        after_saving,
        str(exit_code),
    ]


def events(job: Job, index: int) -> list[str]:
    path = job.directory / f"events-{index}"
    return path.read_text().split() if path.exists() else []


def test_size_0_signals_every_command_once_and_waits_for_its_exit(job: Job) -> None:
    set_command(job, "exits")
    job.start(0, 1)
    job.until(lambda s: s.state == State.TRAINING and s.size == 2)
    job.until(lambda s: all(events(job, i) == ["began"] for i in (0, 1)))
    job.resize(0)
    stopped = job.until(lambda s: s.ceded(0))
    assert (stopped.size, stopped.parked) == (0, (0, 1))
    assert [events(job, i) for i in (0, 1)] == [["began", "saved"]] * 2
    # When the request is cancelled, the command is started again.
    job.resize(2)
    job.until(lambda s: s.state == State.TRAINING and s.size == 2)
    job.until(lambda s: all(events(job, i) == ["began", "saved", "began"] for i in (0, 1)))
    assert job.stop() == [contract.EXIT_LEFT_ON_REQUEST, contract.EXIT_LEFT_ON_REQUEST]
    assert [events(job, i)[-1] for i in (0, 1)] == ["saved", "saved"]


def test_a_command_may_touch_a_file_when_it_has_saved_and_stay(job: Job) -> None:
    set_command(job, "stays")
    # A file from before the signal does not count.
    (job.directory / "done").touch()
    job.start(0)
    job.until(lambda s: s.state == State.TRAINING and events(job, 0) == ["began"])
    job.resize(0)
    assert job.until(lambda s: s.ceded(0)).parked == (0,)
    assert events(job, 0) == ["began", "saved"]
    job.resize(1)
    job.until(lambda s: s.state == State.TRAINING)
    # The command was never restarted.
    assert events(job, 0) == ["began", "saved"]
    (job.directory / "end").touch()
    assert job.pods[0].wait(20) == 0


def test_a_command_that_fails_ends_its_pod_with_its_exit_code(job: Job) -> None:
    set_command(job, "exits", exit_code=5)
    job.start(0)
    job.until(lambda s: events(job, 0) == ["began"])
    (job.directory / "end").touch()
    assert job.pods[0].wait(20) == 5
    assert events(job, 0) == ["began"]


def test_a_local_job_runs_a_command_too(job: Job) -> None:
    """Two pods, ended by SIGTERM."""
    command = [
        "--local",
        "2",
        "--port",
        str(job.port),
        "--signal",
        "USR1",
        "--",
        sys.executable,
        "train.py",
        "exits",
        "0",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "elastic_runtime", *command], cwd=job.directory, env=job.env
    ) as running:
        while not all(events(job, i) for i in (0, 1)):
            assert running.poll() is None
            os.sched_yield()
        running.terminate()
    assert running.returncode == contract.EXIT_LEFT_ON_REQUEST
    assert [events(job, i) for i in (0, 1)] == [["began", "saved"]] * 2
