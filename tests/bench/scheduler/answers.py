"""Counts the answers of runtimes that are lost while the scheduler plans, and times how long its
event loop stands still.

The runtimes run in a process of their own and answer at once. The scheduler's process polls them,
and computes pass after pass beside its event loop, as the controller does.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from multiprocessing.connection import Connection

from cede.kube.threads import run_in_thread
from scheduler.runtime_client import Endpoint, RuntimeClient
from tests.bench.server_process import running
from tests.fakes.runtime import ROOT_KEY, Runtime, loopback_address

RUNTIMES = 50
NAMESPACE = "team-0"
TICK_S = 0.005
PAUSE_S = 0.02
"""Between two passes, as cede.kube.loop waits after a change."""


class Failures(logging.Handler):
    """Counts the calls that the runtime client gave up."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += record.getMessage() == "runtime did not answer"


def address(index: int) -> str:
    # 127.0.x.x to 127.2.x.x belong to tests
    return loopback_address(3 + index)


def serve(sender: Connection) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            addresses = [address(index) for index in range(RUNTIMES)]
            for index, place in enumerate(addresses):
                await stack.enter_async_context(Runtime(place, NAMESPACE, f"uid-{index}", 8))
            sender.send(addresses)
            await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def runtimes() -> Iterator[list[Endpoint]]:
    """Runtimes that answer until the context ends."""
    with running(serve) as addresses:
        yield [
            Endpoint((NAMESPACE, f"job-{index}"), f"uid-{index}", (place,), is_changing=True)
            for index, place in enumerate(addresses)
        ]


async def measure(
    endpoints: list[Endpoint], run_pass: Callable[[], None], seconds: float
) -> tuple[int, float]:
    """Calls without an answer, and the longest time in ms for which the event loop stood still,
    while `run_pass` is called again and again for `seconds`."""
    failures = Failures()
    log = logging.getLogger("scheduler")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(failures)
    end = time.monotonic() + seconds
    async with RuntimeClient(lambda: (ROOT_KEY,), lambda: None) as client:
        client.follow(endpoints)
        pauses = list[float]()
        watching = asyncio.create_task(_note_pauses(pauses))
        while time.monotonic() < end:
            await run_in_thread(run_pass)
            await asyncio.sleep(PAUSE_S)
        watching.cancel()
        lost = max(failures.count, len(endpoints) - len(client.statuses()))
        return lost, 1000 * max(pauses)


async def _note_pauses(pauses: list[float]) -> None:
    """Adds the seconds by which each short sleep is late, until it is cancelled."""
    clock = asyncio.get_running_loop().time
    while True:
        before = clock()
        await asyncio.sleep(TICK_S)
        pauses.append(clock() - before - TICK_S)
