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
    turned = threading.Event()

    async def turn() -> None:
        for _ in range(10):
            await asyncio.sleep(0.01)
        turned.set()

    def compute() -> bool:
        """Whether the loop went on meanwhile."""
        end = time.monotonic() + 60
        while not turned.is_set() and time.monotonic() < end:
            sum(range(1000))
        return turned.is_set()

    turning = asyncio.create_task(turn())
    assert await run_in_thread(compute)
    await turning


async def test_one_that_never_ends_can_be_left() -> None:
    stuck = threading.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await run_in_thread(stuck.wait)
    stuck.set()
