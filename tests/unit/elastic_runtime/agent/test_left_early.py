"""What becomes of a pod one of whose workers ends with success before the job has ended."""

import asyncio
from dataclasses import replace

import pytest

from elastic_runtime.agent.settings import AGENT_FD_ENV, LOCAL_RANK_ENV
from elastic_runtime.agent.worker_exit import LEFT_EARLY
from elastic_runtime.messages import (
    Broken,
    Failed,
    Formed,
    Joining,
    Ready,
    WorkerMessage,
    encode_line,
)
from tests.fakes.agents import agent

# Rank 0 stays, as the session of a rank does that waits for the others. Rank 1 ends at once.
LEAVES = f"""
import os, socket, sys, time
agent = socket.socket(fileno=int(os.environ["{AGENT_FD_ENV}"]))
rank = int(os.environ["{LOCAL_RANK_ENV}"])
agent.sendall(sys.argv[1 + rank].encode())
if rank == 0:
    time.sleep(60)
"""
FORMED = (Ready(), Formed(3, (0, 1), 7))


@pytest.mark.parametrize(
    ("stays", "leaves"),
    [
        pytest.param((*FORMED, Broken(3)), FORMED, id="in the loop over steps"),
        pytest.param((*FORMED, Joining()), FORMED, id="at a planned resize"),
        pytest.param((Ready(),), (Ready(),), id="before the first generation"),
        pytest.param((Ready(),), (), id="before the session"),
    ],
)
async def test_a_pod_ends_if_one_worker_waits_for_another_that_left_early(
    stays: tuple[WorkerMessage, ...], leaves: tuple[WorkerMessage, ...]
) -> None:
    pod = agent(1)
    pod.pool.settings = replace(pod.pool.settings, ranks=2)
    lines = [b"".join(map(encode_line, sent)).decode() for sent in (stays, leaves)]
    pod.pool.script = ["-c", LEAVES, *lines]
    # Of workers before these.
    pod.pool._last_failure = Failed("no data")
    try:
        async with asyncio.timeout(20):
            await pod.pool.run_workers()
    finally:
        pod.pool.kill()
    assert (pod.code, pod.pool.all_deaths) == (1, 0)
    assert pod.pool.state.progress.failure == f"gave up: {LEFT_EARLY}"


@pytest.mark.parametrize(
    ("sent", "code", "failure"),
    [
        pytest.param((Failed("no step"),), 1, "gave up: no step", id="with a session"),
        pytest.param((), 0, None, id="without a session"),
    ],
)
async def test_a_script_that_ends_without_a_step_has_failed_if_it_has_a_session(
    sent: tuple[WorkerMessage, ...], code: int, failure: str | None
) -> None:
    pod = agent(1)
    line = b"".join(map(encode_line, sent)).decode()
    pod.pool.script = ["-c", LEAVES.replace("rank == 0", "False"), line]
    try:
        async with asyncio.timeout(20):
            await pod.pool.run_workers()
    finally:
        pod.pool.kill()
    assert (pod.code, pod.pool.all_deaths) == (code, 0)
    assert pod.pool.state.progress.failure == failure


async def test_a_worker_that_failed_counts_though_another_left_early() -> None:
    """Rank 0 fails while the agent still reads the last messages of rank 1."""
    pool = agent(1).pool
    pool.settings = replace(pool.settings, ranks=2)
    pool.script = ["-c", f"import os; os._exit(3 if os.environ['{LOCAL_RANK_ENV}'] == '0' else 0)"]
    await pool._start()
    for worker in pool.workers:
        await worker.process.wait()
        worker.joins = True
    assert await pool._wait_for_exit() == 3
    assert [worker.left_early for worker in pool.workers] == [False, True]
