"""A cancellation that comes in the same turn of the event loop as the end of a request's time."""

import asyncio
import time
from collections.abc import Callable


async def cancelled_when_late(
    request: asyncio.Task[object], seconds: float, *, until: Callable[[], bool]
) -> None:
    """Cancels the request, which ends after so many `seconds` and is under way `until` this is
    true, together with that end. Raises AssertionError if it is not cancelled then."""
    async with asyncio.timeout(5):
        while not until():  # noqa: ASYNC110
            await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(seconds, request.cancel)
    # the loop finds that both are due
    time.sleep(2 * seconds)  # noqa: ASYNC251
    await asyncio.wait([request], timeout=5)
    assert request.cancelled()
