"""A command that knows nothing of us is asked to go gently, and its job answers as any other
does."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.agent.external_command import script
from elastic_runtime.contract import State
from tests.harness.local_job import Job

pytestmark = pytest.mark.processes

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
name, wish = "said-" + os.environ["JOB_COMPLETION_INDEX"], []
signal.signal(signal.SIGUSR1, lambda *_: wish.append(1))
assert "LOCAL_RANK" not in os.environ

def say(what):
    with open(name, "a") as file:
        file.write(what + "\\n")

say("began")
while not Path("end").exists():
    time.sleep(0.02)
    if wish:
        say("saved")
        if sys.argv[1] == "leaves":
            sys.exit(7)
        Path("done").touch()
        wish.clear()
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, SCRIPT)
    yield job
    job.kill()


def runs(job: Job, how: str, code: int = 0) -> None:
    job.command = [
        "--signal",
        "USR1",
        "--done",
        "done" if how == "stays" else "",
        "--",
        sys.executable,
        "train.py",
        how,
        str(code),
    ]


def lines(job: Job, index: int) -> list[str]:
    path = job.directory / f"said-{index}"
    return path.read_text().split() if path.exists() else []


def test_size_0_asks_every_command_once_and_is_answered_by_its_end(job: Job) -> None:
    runs(job, "leaves")
    job.start(0, 1)
    job.until(lambda s: s.state == State.TRAINING and s.size == 2)
    job.until(lambda s: all(lines(job, i) == ["began"] for i in (0, 1)))
    job.resize(0)
    stopped = job.until(lambda s: s.ceded(0))
    assert (stopped.size, stopped.parked) == (0, (0, 1))
    assert [lines(job, i) for i in (0, 1)] == [["began", "saved"]] * 2
    # taken back: it begins again
    job.resize(2)
    job.until(lambda s: s.state == State.TRAINING and s.size == 2)
    job.until(lambda s: all(lines(job, i) == ["began", "saved", "began"] for i in (0, 1)))
    assert job.stop() == [contract.EXIT_LEFT_ON_REQUEST, contract.EXIT_LEFT_ON_REQUEST]
    assert [lines(job, i)[-1] for i in (0, 1)] == ["saved", "saved"]


def test_a_file_it_touches_is_an_answer_and_it_may_stay(job: Job) -> None:
    runs(job, "stays")
    # of an earlier time: no answer to this wish
    (job.directory / "done").touch()
    job.start(0)
    job.until(lambda s: s.state == State.TRAINING and lines(job, 0) == ["began"])
    job.resize(0)
    assert job.until(lambda s: s.ceded(0)).parked == (0,)
    assert lines(job, 0) == ["began", "saved"]
    job.resize(1)
    job.until(lambda s: s.state == State.TRAINING)
    # it went on all the while
    assert lines(job, 0) == ["began", "saved"]
    (job.directory / "end").touch()
    assert job.pods[0].wait(20) == 0


def test_its_own_failure_is_its_pods_and_is_not_tried_again(job: Job) -> None:
    runs(job, "leaves", code=5)
    job.start(0)
    job.until(lambda s: lines(job, 0) == ["began"])
    (job.directory / "end").touch()
    assert job.pods[0].wait(20) == 5
    assert lines(job, 0) == ["began"]


def test_a_signal_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="name of a signal"):
        script("BANG", "", ["sleep", "9"])


def test_on_this_machine_too(job: Job) -> None:
    """By the command itself: two pods, ended by SIGTERM."""
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
        "leaves",
        "0",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "elastic_runtime", *command], cwd=job.directory, env=job.env
    ) as running:
        while not all(lines(job, i) for i in (0, 1)):
            assert running.poll() is None
            os.sched_yield()
        running.terminate()
    assert running.returncode == contract.EXIT_LEFT_ON_REQUEST
    assert [lines(job, i) for i in (0, 1)] == [["began", "saved"]] * 2
