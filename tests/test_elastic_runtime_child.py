"""What a parent holds of a process, while it ends."""

import asyncio
import os
import time
from pathlib import Path

from elastic_runtime.child import Child


async def a_child(folder: Path) -> Child:
    """A process that sleeps, and has said that it listens."""
    process = await asyncio.create_subprocess_exec("sleep", "60", stdin=asyncio.subprocess.PIPE)
    assert process.stdin
    child = Child(process, asyncio.StreamReader(), process.stdin, os.open(folder / "stacks", os.O_RDWR | os.O_CREAT), time.monotonic)
    child.listens = True
    return child


async def test_stacks_asked_for_while_a_process_is_let_go_do_not_fail(tmp_path: Path) -> None:
    child = await a_child(tmp_path)
    asked = asyncio.create_task(child.stacks())
    await asyncio.sleep(0)  # it has begun
    child.process.kill()
    child.close()
    others = os.pipe()  # which take the number that was closed, and cannot be read at an offset
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
