"""When a pod's workers are started again, and with which exit code the pod ends."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from elastic_runtime.agent import worker_pool
from elastic_runtime.agent.settings import AGENT_FD_ENV, PodSettings
from elastic_runtime.agent.worker_process import MAX_BYTES, WorkerProcess, spawn
from elastic_runtime.messages import (
    Failed,
    Finished,
    Formed,
    NewRecord,
    Record,
    StepCommitted,
    encode_line,
)
from tests.fakes.agents import agent

FAILS = f"""
import os, socket, sys
from pathlib import Path
from elastic_runtime.messages import Failed, encode_line
with open(sys.argv[1], "a") as starts:
    starts.write("x")
agent = socket.socket(fileno=int(os.environ["{AGENT_FD_ENV}"]))
kind = sys.argv[2]
reason = kind + Path(sys.argv[1]).read_text() if kind == "other" else "its text"
agent.sendall(encode_line(Failed(reason, kind == "mistake", kind == "disk")))
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("failure", "starts"),
    [
        pytest.param("mistake", 1, id="a mistake"),
        pytest.param("alike", 2, id="twice the same before the first step"),
        pytest.param("other", 4, id="always something else"),
        pytest.param("disk", 4, id="always the same, and outside the script"),
    ],
)
async def test_a_script_that_would_fail_again_is_not_started_again(
    failure: str, starts: int, tmp_path: Path
) -> None:
    pod = agent(1)
    pod.pool.script = ["-c", FAILS, str(tmp_path / "starts"), failure]
    async with asyncio.timeout(60):
        await pod.pool.run_workers()
    assert len((tmp_path / "starts").read_text()) == starts
    assert pod.code == 3
    reason = pod.pool.state.progress.failure
    assert reason is not None
    assert reason.startswith(("gave up: its text", "gave up: other"))


CHILD = "import sys; from elastic_runtime import device; 1 / 0"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param(
            "from elastic_runtime import device\nraise RuntimeError('no data')",
            "<string>, line 2: RuntimeError: no data",
            id="an exception before the session exists",
        ),
        pytest.param(
            "raise SystemExit(2)",
            "its script ended with exit code 2: see the pod's log",
            id="an exit without an exception",
        ),
        pytest.param(
            "import os; os.kill(os.getpid(), 9)",
            "its process was killed by signal 9: see the pod's log",
            id="a signal",
        ),
        pytest.param(
            f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {CHILD!r}]))",
            "its script ended with exit code 1: see the pod's log",
            id="an exception in another process that the script starts",
        ),
    ],
)
async def test_the_status_gives_the_cause_of_an_end_before_the_session(
    script: str, reason: str
) -> None:
    pod = agent(1)
    pod.pool.settings = replace(pod.pool.settings, max_restarts=0)
    pod.pool.script = ["-c", script]
    async with asyncio.timeout(60):
        await pod.pool.run_workers()
    assert pod.pool.state.progress.failure == f"gave up: {reason}"


async def test_the_status_says_why_workers_were_started_again() -> None:
    pod = agent(1)
    pool = pod.pool
    pool._last_failure = Failed("train.py, line 3: RuntimeError: broken")
    pool.script = ["-c", ""]
    await pool._start()
    try:
        failure = "started its workers again: train.py, line 3: RuntimeError: broken"
        assert pool.state.progress.failure == failure
        pool._receive(pool.workers[0], StepCommitted(1, 0.5))
        assert pool._last_failure is None
    finally:
        await pool._wait_for_exit()


@pytest.mark.parametrize(
    ("members", "reported_waits", "is_reported"),
    [
        pytest.param((1, 2), False, True, id="leading"),
        pytest.param((0, 1), False, False, id="not leading"),
        pytest.param((0, 1), True, True, id="others believe that it waits"),
    ],
)
async def test_a_step_is_reported_at_once_by_the_leading_pod(
    members: tuple[int, ...], reported_waits: bool, is_reported: bool
) -> None:
    pool = agent(1).pool
    pool.script = ["-c", ""]
    await pool._start()
    try:
        pool.record = Record(3, members, ("a", "b"))
        pool.reported_waits = reported_waits
        pool.changed.clear()
        pool._receive(pool.workers[0], StepCommitted(1, 0.5))
        assert pool.changed.is_set() == is_reported
    finally:
        await pool._wait_for_exit()


MEMBERS = Record(3, (0, 1), ("a", "b"), "here", epoch=1)


async def test_no_worker_acts_on_a_record_that_other_coordinators_may_never_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = agent(1).pool
    sent = list[object]()
    monkeypatch.setattr(pool, "send", sent.append)
    unknown = replace(MEMBERS, electors=(0, 1), elector_lives=("a", "b"))
    pool.set_record(unknown)
    assert pool.changed.is_set(), "the coordinator waits until enough pods know it"
    assert sent == []
    pool.set_record(MEMBERS)
    assert sent == [NewRecord(MEMBERS, 1)]


@pytest.mark.parametrize(
    ("winner", "is_overruled"),
    [
        pytest.param(
            replace(MEMBERS, generation=5, epoch=9, earlier_epochs=(1,), earlier_generations=(2,)),
            True,
            id="the other coordinator did not continue it",
        ),
        pytest.param(
            replace(MEMBERS, generation=5, epoch=9, earlier_epochs=(1,), earlier_generations=(3,)),
            False,
            id="it did",
        ),
    ],
)
async def test_what_another_coordinator_does_not_continue_is_forgotten(
    winner: Record, is_overruled: bool
) -> None:
    pool = agent(1).pool
    pool.script = ["-c", "import time; time.sleep(60)"]
    await pool._start()
    pool.set_record(MEMBERS)
    pool._receive(pool.workers[0], Formed(3, (0, 1), 7))
    assert pool.trained == (1, 3)
    pool.set_record(winner)
    if not is_overruled:
        pool.kill()
    code = pool._decide_after_exit(await pool._wait_for_exit())
    # A pod that is overruled starts its workers again, which is no death.
    assert (code, pool.all_deaths) == (None, 0 if is_overruled else 1)


LEAVES_A_CHILD = f"""
import os, subprocess, sys
from pathlib import Path
child = Path(sys.argv[1])
if child.exists():
    sys.exit(0)
socket = int(os.environ["{AGENT_FD_ENV}"])
sleep = subprocess.Popen(["sleep", "60"], start_new_session=True, pass_fds=[socket])
child.write_text(str(sleep.pid))
os._exit(1)
"""


async def test_worker_restarts_though_its_child_holds_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "LAST_MESSAGES_S", 0.1)
    pod = agent(1)
    child = tmp_path / "child"
    pod.pool.script = ["-c", LEAVES_A_CHILD, str(child)]
    try:
        async with asyncio.timeout(20):
            await pod.pool.run_workers()
    finally:
        os.kill(int(child.read_text()), signal.SIGKILL)
    assert (pod.pool.all_deaths, pod.code, pod.over.is_set()) == (1, 0, True)


@pytest.mark.parametrize("error", [OSError, asyncio.CancelledError])
async def test_workers_that_have_started_are_killed_though_the_next_one_does_not_start(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = list[WorkerProcess]()

    async def spawn_first(
        script: Sequence[str], settings: PodSettings, local_rank: int, clock: Callable[[], float]
    ) -> WorkerProcess:
        if local_rank == 1:
            raise error
        started.append(await spawn(script, settings, local_rank, clock))
        return started[0]

    monkeypatch.setattr(worker_pool, "spawn", spawn_first)
    pool = agent(1).pool
    pool.settings = replace(pool.settings, ranks=2)
    pool.script = ["-c", "import time; time.sleep(60)"]
    with pytest.raises(error):
        await pool.run_workers()
    pool.kill()
    [worker] = started
    try:
        async with asyncio.timeout(20):
            assert await worker.process.wait() == -signal.SIGKILL
    finally:
        worker.kill()
        worker.close()


SEND_AND_FINISH = f"""
import os, socket, sys
agent = socket.socket(fileno=int(os.environ["{AGENT_FD_ENV}"]))
agent.sendall(b"x" * int(sys.argv[1]) + b"\\n" + {encode_line(Finished())!r})
"""


@pytest.mark.parametrize("size", [7, 3 * MAX_BYTES], ids=["malformed", "too long"])
async def test_a_message_that_cannot_be_read_is_logged_and_the_next_one_counts(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    pod = agent(1)
    pod.pool.script = ["-c", SEND_AND_FINISH, str(size)]
    async with asyncio.timeout(20):
        await pod.pool.run_workers()
    assert pod.pool.state.finished
    assert "message of a worker ignored" in caplog.messages
