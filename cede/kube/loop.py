"""Runs a reconciler again and again: on changes, after the time that it asks for, and on errors."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from prometheus_client import Counter

from cede.kube.errors import ApiError

log = logging.getLogger(__name__)
MAX_DOUBLINGS = 10
FAILED_PASSES = Counter("cede_failed_passes_total", "Passes that an error ended.", ["error"])


class Unfinished(Exception):
    """A pass that did all it could, but not all that counts: it could not begin, or an error left
    a part out.

    It is no failure, and the next pass comes after `sleep_s` or on a change, as after any other.
    But no pass is finished by it: a leader that has no other ones is stalled.
    """

    def __init__(self, sleep_s: float) -> None:
        super().__init__(f"the next pass comes in {sleep_s:g} s")
        self.sleep_s = sleep_s


async def run(
    reconcile: Callable[[], Awaitable[float]],
    wake: asyncio.Event,
    *,
    name: str = "controller",
    settle_s: float = 0.02,
    retry_s: float = 0.5,
    max_retry_s: float = 30.0,
    finished: Callable[[], None] = lambda: None,
) -> None:
    """Runs until it is cancelled: one pass, then sleep for as long as it returned, or until `wake`.

    After `wake` it waits for `settle_s`, so that changes that come together cause one pass. A pass
    that raises is logged, counted, and repeated after `retry_s`, doubled up to `max_retry_s`, or
    later if the API server asks for it, with `name` in its line of the log. `finished` is called
    after every other pass, except one that raises Unfinished.
    """
    failures = 0
    while True:
        wake.clear()
        try:
            sleep_s = await reconcile()
        except Unfinished as unfinished:
            sleep_s = unfinished.sleep_s
        # nothing that a cluster contains ends the process
        except Exception as error:  # noqa: BLE001
            delay_s = min(max_retry_s, retry_s * 2.0**failures)
            if isinstance(error, ApiError):
                delay_s = max(delay_s, error.retry_after_s)
            failures = min(failures + 1, MAX_DOUBLINGS)
            _report(name, error, delay_s)
            await asyncio.sleep(delay_s)
            continue
        else:
            finished()
        failures = 0
        with suppress(TimeoutError):
            # wait_for of Python 3.11 loses a cancellation that arrives together with the wake
            async with asyncio.timeout(max(sleep_s, 0.0)):
                await wake.wait()
        await asyncio.sleep(settle_s)


def _report(name: str, error: Exception, delay_s: float) -> None:
    """A refusal of the API server explains itself; any other error is ours, with its traceback."""
    FAILED_PASSES.labels(type(error).__name__).inc()
    reason = str(error) or type(error).__name__
    facts = {"passes_of": name, "reason": reason, "retry_in_s": delay_s}
    if isinstance(error, ApiError):
        log.warning("pass failed", extra=facts)
    else:
        log.error("pass failed", extra=facts, exc_info=error)
