"""A computation beside the event loop."""

import asyncio
import threading
import time

import pytest

from cede.kube.threads import run_in_thread


async def test_its_result_or_its_error_is_the_callers() -> None:
    def fail() -> None:
        raise KeyError("a bug")

    assert await run_in_thread(lambda: 7) == 7
    with pytest.raises(KeyError, match="a bug"):
        await run_in_thread(fail)


async def test_the_loop_goes_on_while_it_computes() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.01)

    def compute() -> None:
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            sum(range(1000))

    counting = asyncio.create_task(count())
    await run_in_thread(compute)
    counting.cancel()
    assert turns > 10


async def test_one_that_never_ends_can_be_left() -> None:
    stuck = threading.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await run_in_thread(stuck.wait)
    stuck.set()
