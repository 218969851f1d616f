"""When the passes of a reconciler run."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cede.kube import loop
from cede.kube.errors import Conflict, TooManyRequests
from tests.harness.fast_loop import fast

pytestmark = pytest.mark.slow


def passes(
    reconcile: Callable[[int], Awaitable[float]],
    seconds: float,
    disturb: Callable[[asyncio.Event], Awaitable[None]],
    finished: Callable[[], None] = lambda: None,
) -> list[float]:
    """Runs the loop for `seconds` of a fast clock; returns when each pass began, from the first."""

    async def run() -> list[float]:
        clock = asyncio.get_running_loop().time
        times = list[float]()
        wake = asyncio.Event()

        async def timed_pass() -> float:
            times.append(clock())
            return await reconcile(len(times))

        task = asyncio.create_task(loop.run(timed_pass, wake, finished=finished))
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
            raise asyncio.CancelledError
        if turn in (7, 8):
            return 0.0
        raise Conflict(409, "Conflict", "changed")

    with pytest.raises(asyncio.CancelledError):
        await loop.run(reconcile, asyncio.Event(), retry_s=0.001, max_retry_s=0.008)
    delays = [vars(record)["retry_in_s"] for record in caplog.records]
    assert delays == [0.001, 0.002, 0.004, 0.008, 0.008, 0.008, 0.001, 0.002]


def test_a_pass_that_raises_anything_is_counted_and_repeated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = loop.FAILED_PASSES.labels("KeyError")._value.get()

    async def reconcile(turn: int) -> float:
        if turn < 3:
            raise KeyError("bug")
        return 3600.0

    assert len(passes(reconcile, 5, nothing)) == 3
    assert loop.FAILED_PASSES.labels("KeyError")._value.get() == before + 2
    assert all(record.exc_info for record in caplog.records), "with its traceback"


async def test_a_failed_pass_says_whose_it_is(caplog: pytest.LogCaptureFixture) -> None:
    turns = iter([Conflict(409, "Conflict", "changed"), KeyError("bug")])

    async def reconcile() -> float:
        raise next(turns, asyncio.CancelledError())

    with pytest.raises(asyncio.CancelledError):
        await loop.run(reconcile, asyncio.Event(), name="certificates", retry_s=0.001)
    assert [vars(record)["passes_of"] for record in caplog.records] == ["certificates"] * 2


def test_the_delay_that_the_server_asks_for_is_kept() -> None:
    async def reconcile(turn: int) -> float:
        if turn == 1:
            raise TooManyRequests(429, "TooManyRequests", "busy", retry_after_s=30.0)
        return 3600.0

    assert passes(reconcile, 60, nothing) == pytest.approx([0, 30], abs=6)


def test_a_pass_that_is_unfinished_is_no_failure() -> None:
    """The next one comes when it says, also after failures, or on a change."""
    finished = list[int]()
    before = loop.FAILED_PASSES.labels("Unfinished")._value.get()

    async def reconcile(_: int) -> float:
        raise loop.Unfinished(20.0)

    async def disturb(wake: asyncio.Event) -> None:
        await asyncio.sleep(10)
        wake.set()

    began = passes(reconcile, 45, disturb, finished=lambda: finished.append(1))
    assert began == pytest.approx([0, 10, 30, 50], abs=6)
    assert finished == []
    assert loop.FAILED_PASSES.labels("Unfinished")._value.get() == before


def test_only_whole_passes_are_reported_as_finished() -> None:
    finished = list[int]()

    async def run() -> None:
        turn = 0

        async def reconcile() -> float:
            nonlocal turn
            turn += 1
            if turn % 2:
                raise KeyError("bug")
            return 1.0

        task = asyncio.create_task(
            loop.run(reconcile, asyncio.Event(), finished=lambda: finished.append(turn))
        )
        await asyncio.sleep(10)
        task.cancel()

    fast(run())
    assert finished
    assert all(turn % 2 == 0 for turn in finished)


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
