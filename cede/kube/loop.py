"""Runs a reconciler again and again: on changes, after the time that it asks for, and on errors."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from cede.kube.errors import ApiError

log = logging.getLogger(__name__)
MAX_DOUBLINGS = 10


async def run(
    reconcile: Callable[[], Awaitable[float]],
    wake: asyncio.Event,
    *,
    settle_s: float = 0.02,
    retry_s: float = 0.5,
    max_retry_s: float = 30.0,
) -> None:
    """Runs until it is cancelled: one pass, then sleep for as long as it returned, or until `wake`.

    After `wake` it waits for `settle_s`, so that changes that come together cause one pass. A pass
    that raises ApiError is repeated after `retry_s`, doubled up to `max_retry_s`; any other
    exception ends the loop.
    """
    failures = 0
    while True:
        wake.clear()
        try:
            sleep_s = await reconcile()
            failures = 0
        except ApiError as error:
            delay_s = min(max_retry_s, retry_s * 2.0**failures)
            failures = min(failures + 1, MAX_DOUBLINGS)
            log.warning("pass failed", extra={"reason": str(error), "retry_in_s": delay_s})
            await asyncio.sleep(delay_s)
            continue
        with suppress(TimeoutError):
            # wait_for of Python 3.11 loses a cancellation that arrives together with the wake
            async with asyncio.timeout(max(sleep_s, 0.0)):
                await wake.wait()
        await asyncio.sleep(settle_s)
