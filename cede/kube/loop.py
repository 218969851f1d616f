"""Level-triggered control: settle, reconcile, sleep; back off on failure."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from cede.kube.errors import ApiError

log = logging.getLogger(__name__)


async def run(
    reconcile: Callable[[], Awaitable[float]],
    wake: asyncio.Event,
    *,
    settle_s: float = 0.02,
    retry_s: float = 0.5,
    most_s: float = 30.0,
) -> None:
    """Forever: one pass, then sleep for as long as the pass said or until `wake`, then let what
    comes together settle.

    A pass that raises ApiError is tried again after `retry_s`, doubled up to `most_s`; any other
    exception ends the loop.
    """
    failures = 0
    while True:
        wake.clear()
        try:
            seconds = await reconcile()
            failures = 0
        except ApiError as error:
            seconds = min(most_s, retry_s * 2.0**failures)
            failures = min(failures + 1, 10)
            log.warning("pass failed", extra={"reason": str(error), "again_in_s": seconds})
            await asyncio.sleep(seconds)
            continue
        with suppress(TimeoutError):
            # wait_for of Python 3.11 loses a cancellation that meets the wake
            async with asyncio.timeout(max(seconds, 0.0)):
                await wake.wait()
        await asyncio.sleep(settle_s)
