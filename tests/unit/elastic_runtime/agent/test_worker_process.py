"""What an agent keeps of a worker process, also while the process ends."""

import asyncio
import errno
import itertools
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from elastic_runtime.agent import worker_process
from elastic_runtime.agent.hang_detection import MIN_CPU_SHARE
from elastic_runtime.agent.worker_process import WorkerProcess, spawn
from tests.fakes.agents import pod_settings

# By which asyncio waits for the end of a process.
IS_PIDFD = sys.version_info >= (3, 12)


@asynccontextmanager
async def worker_in(
    folder: Path, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[WorkerProcess]:
    """A process that sleeps and has answered a ping. The test closes it."""
    process = await asyncio.create_subprocess_exec("sleep", "60", stdin=asyncio.subprocess.PIPE)
    assert process.stdin
    stacks = os.open(folder / "stacks", os.O_RDWR | os.O_CREAT)
    worker = WorkerProcess(process, asyncio.StreamReader(), process.stdin, stacks, clock)
    worker.listens = True
    try:
        yield worker
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_stacks_requested_while_the_process_is_closed(tmp_path: Path) -> None:
    async with worker_in(tmp_path) as worker:
        request = asyncio.create_task(worker.stacks())
        # The request starts.
        await asyncio.sleep(0)
        worker.process.kill()
        worker.close()
        # A pipe takes the number of the closed descriptor, and cannot be read at an offset.
        pipe = os.pipe()
        assert "no stacks" in await request
        for descriptor in pipe:
            os.close(descriptor)


async def test_closed_process_has_no_stacks(tmp_path: Path) -> None:
    async with worker_in(tmp_path) as worker:
        worker.close()
        assert await worker.stacks() == "the process has ended"


async def test_process_that_starts_has_no_stacks(tmp_path: Path) -> None:
    """It has no handler for the signal yet, and would die of it."""
    async with worker_in(tmp_path) as worker:
        worker.listens = False
        assert await worker.stacks() == "the process is starting"
        worker.close()


@pytest.mark.parametrize(
    ("module", "name", "failing"),
    [
        pytest.param(socket, "socketpair", {1, 2}, id="no socket"),
        pytest.param(os, "memfd_create", {1, 2}, id="no file"),
        pytest.param(os, "pipe", {2}, id="one pipe only"),
        pytest.param(asyncio, "create_subprocess_exec", {1, 2}, id="no pipe of the process"),
    ],
)
async def test_a_process_starts_once_files_can_be_opened_and_no_other_file_stays_open(
    module: ModuleType, name: str, failing: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "SPAWN_INTERVAL_S", 0.01)
    opens = getattr(module, name)
    calls = itertools.count(1)

    def fail(*arguments: Any, **options: Any) -> Any:
        if next(calls) in failing:
            raise OSError(errno.EMFILE, "Too many open files")
        return opens(*arguments, **options)

    before = set(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(module, name, fail)
    worker = await spawn(["-c", ""], replace(pod_settings(), tee=3), 0, time.monotonic)
    assert next(calls) > max(failing) + 1
    # Its socket, its stacks and its output.
    assert len(set(os.listdir("/proc/self/fd")) - before) <= 4 + IS_PIDFD
    assert await worker.process.wait() == 0
    worker.close()
    for stream in worker.output:
        stream.discard()


async def test_another_error_of_a_start_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/python")
    with pytest.raises(FileNotFoundError):
        await spawn(["-c", ""], pod_settings(), 0, time.monotonic)


async def test_defaults_for_nccl_and_memory_yield_to_the_users_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_NCCL_NONBLOCKING_TIMEOUT", "7")
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    for name in ("TORCH_NCCL_ENABLE_MONITORING", "MALLOC_MMAP_THRESHOLD_"):
        monkeypatch.delenv(name, raising=False)
    script = tmp_path / "write.py"
    script.write_text(
        f"import json, os; json.dump(dict(os.environ), open({str(tmp_path / 'env')!r}, 'w'))"
    )
    worker = await spawn([str(script)], pod_settings(), 0, time.monotonic)
    await worker.process.wait()
    worker.close()
    env = json.loads((tmp_path / "env").read_text())
    assert env["TORCH_NCCL_NONBLOCKING_TIMEOUT"] == "7"
    assert env["TORCH_NCCL_ENABLE_MONITORING"] == "0"
    assert env["MALLOC_TRIM_THRESHOLD_"] == "131072"
    assert env["MALLOC_MMAP_THRESHOLD_"] == "33554432"


async def test_silence_counts_from_the_last_answer_once_pinged_again(tmp_path: Path) -> None:
    now = 100.0
    async with worker_in(tmp_path, lambda: now) as worker:
        worker.ready = True
        worker.listens = False
        worker.ping()
        now = 101.0
        # No answer ever: since the first ping.
        assert worker.pulse().unanswered_s == 1.0
        worker.receive_pong()
        now = 101.5
        # No ping since.
        assert worker.pulse().unanswered_s == 0.0
        worker.ping()
        now = 101.6
        worker.ping()
        assert worker.pulse().unanswered_s == pytest.approx(0.6)
        worker.close()


async def test_the_import_of_torch_counts_as_no_silence(tmp_path: Path) -> None:
    now = 100.0
    async with worker_in(tmp_path, lambda: now) as worker:
        worker.listens = False
        # The first ping waits until the process listens, on a busy machine for minutes.
        worker.ping()
        now = 190.0
        worker.receive_ready()
        assert worker.pulse().unanswered_s == 0.0
        now = 191.0
        assert worker.pulse().unanswered_s == 1.0
        worker.receive_pong()
        assert worker.pulse().slowest_answer_s == 1.0
        # A process that is ready once more has answered before.
        worker.ping()
        now = 193.0
        worker.receive_ready()
        assert worker.pulse().unanswered_s == 2.0
        worker.close()


@pytest.mark.parametrize(
    ("code", "computes"),
    [
        pytest.param("while True: pass", True, id="computes"),
        pytest.param("import time; time.sleep(60)", False, id="waits"),
    ],
)
async def test_a_process_that_computes_is_told_from_one_that_waits(
    code: str, computes: bool
) -> None:
    worker = await spawn(["-c", code], pod_settings(), 0, time.monotonic)
    try:
        async with asyncio.timeout(60):
            # At its start every process computes.
            while (worker.pulse().cpu_share >= MIN_CPU_SHARE) != computes or not is_sampled(worker):
                worker.ping()
                await asyncio.sleep(0.05)
    finally:
        worker.kill()
        await worker.process.wait()
        worker.close()


def is_sampled(worker: WorkerProcess) -> bool:
    return len(worker._cpu_seconds) == worker._cpu_seconds.maxlen


async def test_first_step_of_a_generation_does_not_count_for_the_pace(tmp_path: Path) -> None:
    """It includes the pause."""
    async with worker_in(tmp_path) as worker:
        worker.change_generation(joins=False)
        worker.commit_step(9.0)
        worker.commit_step(0.2)
        pulse = worker.pulse()
        assert (pulse.steps, pulse.median_step_s, pulse.slowest_step_s) == (2, 0.2, 0.2)
        worker.close()


TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


async def test_a_worker_gets_names_of_our_own_and_none_of_torchruns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of torchrun's set would make Accelerate and transformers wait for the other half."""
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    script = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"
    worker = await spawn(
        ["-c", script, str(tmp_path / "env")], pod_settings(ranks=2), 1, time.monotonic
    )
    assert await worker.process.wait() == 0
    worker.close()
    environment = json.loads((tmp_path / "env").read_text())
    assert not {*TORCHRUN} & environment.keys()
    assert environment["CEDE_LOCAL_RANK"] == "1"
    assert environment["CEDE_RANKS_PER_POD"] == "2"
