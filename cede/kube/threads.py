"""Runs a long computation beside the event loop, which goes on to answer and to be answered."""

import asyncio
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")
SWITCH_INTERVAL_S = 0.001
"""How long the event loop waits for the interpreter while a thread computes; Python's default is
five times as long."""


async def run_in_thread(function: Callable[[], T]) -> T:
    """What the function returns or raises. A computation that never ends delays nothing else, not
    even the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    sys.setswitchinterval(SWITCH_INTERVAL_S)

    def finish(settle: Callable[[], None]) -> None:
        # nobody waits any more if the caller was cancelled, or its loop has ended
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if future.done() else settle())

    def compute() -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001
            failure = error
            finish(lambda: future.set_exception(failure))
        else:
            finish(lambda: future.set_result(result))

    threading.Thread(target=compute, name="computation", daemon=True).start()
    return await future
