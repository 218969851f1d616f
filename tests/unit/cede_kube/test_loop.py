"""When the passes of a reconciler run."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cede.kube import loop
from cede.kube.errors import Conflict
from tests.harness.fast_loop import fast

pytestmark = pytest.mark.slow


def passes(
    reconcile: Callable[[int], Awaitable[float]],
    seconds: float,
    disturb: Callable[[asyncio.Event], Awaitable[None]],
) -> list[float]:
    """Runs the loop for `seconds` of a fast clock; returns when each pass began, from the first."""

    async def run() -> list[float]:
        clock = asyncio.get_running_loop().time
        times = list[float]()
        wake = asyncio.Event()

        async def timed_pass() -> float:
            times.append(clock())
            return await reconcile(len(times))

        task = asyncio.create_task(loop.run(timed_pass, wake))
        await asyncio.sleep(0)
        await disturb(wake)
        await asyncio.sleep(seconds)
        task.cancel()
        [result] = await asyncio.gather(task, return_exceptions=True)
        if not isinstance(result, asyncio.CancelledError):
            raise result  # type: ignore[misc]
        return [time - times[0] for time in times]

    return fast(run())


async def nothing(_: asyncio.Event) -> None: ...


def test_a_pass_returns_when_the_next_one_runs() -> None:
    async def reconcile(_: int) -> float:
        return 20.0

    assert passes(reconcile, 50, nothing) == pytest.approx([0, 20, 40], abs=6)


def test_many_changes_cause_one_pass() -> None:
    async def reconcile(_: int) -> float:
        return 3600.0

    async def disturb(wake: asyncio.Event) -> None:
        for _ in range(100):
            wake.set()

    assert len(passes(reconcile, 5, disturb)) == 2


def test_a_change_during_a_pass_is_not_lost() -> None:
    woken = asyncio.Event()

    async def reconcile(turn: int) -> float:
        if turn == 1:
            await asyncio.sleep(1)
            woken.set()
        return 3600.0

    async def disturb(wake: asyncio.Event) -> None:
        await asyncio.sleep(0.5)
        wake.set()

    assert len(passes(reconcile, 5, disturb)) == 2
    assert woken.is_set()


async def test_a_refused_pass_is_retried_after_growing_delays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turn = 0

    async def reconcile() -> float:
        nonlocal turn
        turn += 1
        if turn == 11:
            raise KeyError("the end of this test")
        if turn in (7, 8):
            return 0.0
        raise Conflict(409, "Conflict", "changed")

    with pytest.raises(KeyError):
        await loop.run(reconcile, asyncio.Event(), retry_s=0.001, max_retry_s=0.008)
    delays = [vars(record)["retry_in_s"] for record in caplog.records]
    assert delays == [0.001, 0.002, 0.004, 0.008, 0.008, 0.008, 0.001, 0.002]


def test_any_other_exception_ends_the_loop() -> None:
    async def reconcile(_: int) -> float:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        passes(reconcile, 1, nothing)


async def test_a_cancellation_together_with_a_wake_ends_the_loop() -> None:
    wake = asyncio.Event()
    looking = asyncio.Event()

    async def reconcile() -> float:
        looking.set()
        return 60.0

    task = asyncio.create_task(loop.run(reconcile, wake, settle_s=60))
    await looking.wait()
    # until the loop sleeps
    for _ in range(3):
        await asyncio.sleep(0)
    wake.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(5):
            await task
