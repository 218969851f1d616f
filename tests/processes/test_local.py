"""Jobs of real processes: whatever happens, their steps, samples and losses are those of an
undisturbed run."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import control_client
from elastic_runtime.checkpointing import restore
from elastic_runtime.contract import State, Status
from tests.harness.local_job import (
    FOREVER,
    SCRIPT,
    Job,
    check_exactly_once,
    children,
    free_port,
)
from tests.marks import LONG
from tests.paths import TREE

pytestmark = pytest.mark.processes


def test_a_job_that_shrinks_and_grows_loses_nothing(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2, 3)
    job.trains(4)
    ranks = [children(job.pods[i].pid) for i in (0, 1)]
    status = job.resize(2)
    assert (status.wanted, status.cession) == (2, "c1")
    shrunk = job.until(
        lambda s: s.ceded(2) and s.parked == (2, 3) and s.durableStep > 0 and s.pauseSeconds > 0
    )
    assert (shrunk.size, shrunk.generation > 1, len(shrunk.digest)) == (2, True, 64)
    assert shrunk.stepSeconds > 0
    assert shrunk.loss
    job.trains(2)
    # To request the same size again changes nothing.
    assert job.resize(2).generation == job.trains(2).generation
    job.resize(4)
    job.trains(4)
    assert ranks == [children(job.pods[i].pid) for i in (0, 1)], "no process was restarted"
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_killed_rank_costs_only_the_step_in_flight(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2)
    first = job.trains(3)
    # The leading rank, which holds the store.
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


@LONG
def test_a_lost_pod_0_is_replaced_without_a_checkpoint(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2)
    job.trains(3)
    job.resize(3)
    before = job.trains(3)
    job.kill_pod(0)
    job.start(0)
    after = job.trains(3)
    assert after.step > before.step
    assert after.durableStep == 0
    assert (after.wanted, after.cession) == (3, "c1")
    # Again, in the middle of a shrink.
    job.resize(2)
    job.kill_pod(0)
    job.start(0)
    assert job.trains(2).step > after.step
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_stopped_job_continues_from_its_last_step_and_ends(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    first = job.trains(2)
    assert job.stop() == [contract.EXIT_LEFT_ON_REQUEST, contract.EXIT_LEFT_ON_REQUEST]
    before = check_exactly_once(job, undisturbed)
    job.steps = before + 60
    job.start(0, 1)
    resumed = job.until(lambda s: s.durableStep == before)
    # The journal knows the newest generation: no number is used twice.
    assert resumed.generation > first.generation
    job.resize(2)
    # Beyond the requested size: the pod waits, and ends with the others.
    job.start(2)
    assert [pod.wait(40) for pod in job.pods.values()] == [0, 0, 0]
    assert check_exactly_once(job, undisturbed) == before + 60


def test_size_0_saves_and_parks_all_pods_and_can_be_cancelled(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    job.trains(2)
    job.resize(0)
    stopped = job.until(lambda s: s.ceded(0))
    assert (stopped.state, stopped.size, stopped.parked) == (State.STOPPED, 0, (0, 1))
    assert stopped.durableStep == stopped.step > 0
    job.kill_pod(0)
    # The new coordinator knows only what the other pods report.
    job.start(0)
    reported = job.until(lambda s: s.ceded(0))
    assert reported.step == reported.durableStep == stopped.step
    assert reported.digest == stopped.digest
    job.resize(2)
    assert job.trains(2).step > stopped.step
    [first] = [line for line in job.lines("steps-1-0") if line["step"] == stopped.step + 1]
    assert "pause_ms" not in first, "it was stopped, not paused"
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_terminated_pod_leaves_at_the_end_of_a_step(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2)
    job.trains(3)
    job.pods[2].terminate()
    job.trains(2)
    assert job.pods[2].wait(20) == contract.EXIT_LEFT_ON_REQUEST
    with pytest.raises(control_client.Refused) as refused:
        job.call("GET", contract.STATUS_PATH, key=b"another")
    assert refused.value.status == 401
    job.stop()
    check_exactly_once(job, undisturbed)


@LONG
def test_pods_train_on_and_save_after_pod_0_was_terminated(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2)
    job.trains(3)
    terminated = time.monotonic()
    job.pods[0].terminate()
    job.trains(2)
    # Pod 0 stays up to 10 s for the others; they still train more than 2 s later.
    job.until(lambda s: s.state == State.TRAINING and time.monotonic() > terminated + 2.5)
    assert job.stop() == [contract.EXIT_LEFT_ON_REQUEST] * 3
    newest = restore.newest_intact(job.directory / "save")
    assert newest
    assert newest.step == check_exactly_once(job, undisturbed)


@LONG
def test_one_rank_ends_the_job_early_for_all(tmp_path: Path) -> None:
    stop = "    if step.number == 8 and session.rank == 1:\n        session.stop()\n"
    script = SCRIPT.replace("    for batch in step:\n", stop + "    for batch in step:\n")
    job = Job(tmp_path, script, smallest=2)
    for _ in ("the first time", "started again"):
        job.start(0, 1)
        assert [pod.wait(120) for pod in job.pods.values()] == [0, 0], job.output()
        newest = restore.newest_intact(tmp_path / "save")
        assert newest
        assert newest.step == 9
    assert max(line["step"] for line in job.lines("steps-*")) == 9


@LONG
def test_a_job_gives_up_when_its_script_always_fails_at_one_step(
    tmp_path: Path,
) -> None:
    """It restarts from its checkpoint and fails again. Pods that did not fail end too."""
    failure = "    if step.number == 3 and session.rank == 0: raise SystemExit('no such file')\n"
    (tmp_path / "train.py").write_text(
        SCRIPT.replace("    for batch in step:\n", failure + "    for batch in step:\n")
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
    result = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=150
    )
    assert result.returncode == 1
    assert "pod 0 gave up (exit code 1)" in result.stderr


def test_each_pod_of_a_local_job_has_its_log_and_its_name_on_the_console(tmp_path: Path) -> None:
    """Of a script that never uses the runtime, so that it needs no torch."""
    (tmp_path / "hello.py").write_text("import sys; print('hello'); print('oh', file=sys.stderr)")
    command = [sys.executable, "-m", "elastic_runtime", "--port", str(free_port()), "--local", "2"]
    result = subprocess.run(
        [*command, "--log-dir", "logs", "--tee", "1", "hello.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(TREE)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0
    assert {"[0]: hello", "[1]: hello"} <= set(result.stdout.splitlines())
    assert "oh" not in result.stderr
    for pod in ("0", "1"):
        assert (tmp_path / "logs" / pod / "stdout.log").read_text() == "hello\n"
        assert (tmp_path / "logs" / pod / "stderr.log").read_text() == "oh\n"


def test_a_job_ends_though_its_console_blocks(tmp_path: Path) -> None:
    """Without the runtime too; its log has all."""
    (tmp_path / "much.py").write_text("for number in range(100_000): print(number)")
    command = [sys.executable, "-m", "elastic_runtime", "--port", str(free_port()), "--local", "1"]
    # Nobody reads the pipe until the end.
    with subprocess.Popen(
        [*command, "--log-dir", "logs", "--tee", "1", "much.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(TREE)},
        stdout=subprocess.PIPE,
    ) as local_job:
        try:
            assert local_job.wait(60) == 0
        finally:
            # An agent that waits for its console ends too.
            local_job.communicate()
    assert len((tmp_path / "logs" / "0" / "stdout.log").read_text().splitlines()) == 100_000


def test_the_command_runs_resizes_and_stops_a_local_job(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "elastic_runtime", "--port", str(free_port())]
    env = os.environ | {"PYTHONPATH": str(TREE), "OMP_NUM_THREADS": "1"}

    def ask(*arguments: str) -> Status:
        asked = [*command, *arguments, "-o", "json"]
        result = subprocess.run(asked, cwd=tmp_path, env=env, capture_output=True)
        return contract.decode_status(result.stdout or b"{}")

    def wait_until(condition: Callable[[Status], bool]) -> None:
        end = time.monotonic() + 60
        while not condition(status := ask("status")):
            assert time.monotonic() < end, status
            time.sleep(0.1)

    with subprocess.Popen(
        [*command, "--local", "2", "-m", "package.train", str(FOREVER), "0.01"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.DEVNULL,
    ) as local_job:
        try:
            wait_until(lambda status: status.size == 2)
            assert ask("resize", "1").wanted == 1
            wait_until(lambda status: status.ceded(1))
            assert ask("status").size == 1
        finally:
            local_job.terminate()
    assert local_job.returncode == contract.EXIT_LEFT_ON_REQUEST
