"""What a parent holds of a process, while it ends."""

import asyncio
import json
import os
import time
from pathlib import Path

import pytest

from elastic_runtime.agent.pod_state import Facts
from elastic_runtime.agent.worker_process import Child, spawn


async def a_child(folder: Path) -> Child:
    """A process that sleeps, and has said that it listens."""
    process = await asyncio.create_subprocess_exec("sleep", "60", stdin=asyncio.subprocess.PIPE)
    assert process.stdin
    child = Child(
        process,
        asyncio.StreamReader(),
        process.stdin,
        os.open(folder / "stacks", os.O_RDWR | os.O_CREAT),
        time.monotonic,
    )
    child.listens = True
    return child


async def test_stacks_asked_for_while_a_process_is_let_go_do_not_fail(tmp_path: Path) -> None:
    child = await a_child(tmp_path)
    asked = asyncio.create_task(child.stacks())
    # it has begun
    await asyncio.sleep(0)
    child.process.kill()
    child.close()
    # which take the number that was closed, and cannot be read at an offset
    others = os.pipe()
    assert "no stacks" in await asked
    for other in others:
        os.close(other)
    await child.process.wait()


async def test_a_process_that_was_let_go_has_no_stacks(tmp_path: Path) -> None:
    child = await a_child(tmp_path)
    child.process.kill()
    child.close()
    assert await child.stacks() == "it is gone"
    await child.process.wait()


async def test_a_rank_is_told_how_to_use_nccl_and_memory_unless_the_user_has_said_so(
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
    child = await spawn([str(script)], 0, 1, time.monotonic)
    await child.process.wait()
    child.close()
    env = json.loads((tmp_path / "env").read_text())
    assert (env["TORCH_NCCL_NONBLOCKING_TIMEOUT"], env["TORCH_NCCL_ENABLE_MONITORING"]) == (
        "7",
        "0",
    )
    assert (env["MALLOC_TRIM_THRESHOLD_"], env["MALLOC_MMAP_THRESHOLD_"]) == ("131072", "33554432")


async def test_silence_counts_from_the_last_answer_once_it_was_asked_again(tmp_path: Path) -> None:
    child = await a_child(tmp_path)
    now = 100.0
    child._clock = lambda: now
    child.ready = True
    child.listens = False
    child.ask()
    now = 101.0
    # never an answer: since the first question
    assert child.pulse().unanswered_s == 1.0
    child.answered()
    now = 101.5
    # nobody asked it since
    assert child.pulse().unanswered_s == 0.0
    child.ask()
    now = 101.6
    child.ask()
    assert child.pulse().unanswered_s == pytest.approx(0.6)
    child.process.kill()
    child.close()
    await child.process.wait()


async def test_a_long_message_is_cut_where_the_pod_takes_it_in(tmp_path: Path) -> None:
    child = await a_child(tmp_path)
    facts = Facts()
    facts.heard(
        child, [child], {"say": "progress", "facts": {"message": "x" * 100_000, "durable_step": 3}}
    )
    assert (len(facts.progress["message"]), facts.progress["durable_step"]) == (500, 3)
    child.process.kill()
    child.close()
    await child.process.wait()
