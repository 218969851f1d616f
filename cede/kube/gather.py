"""Runs many requests concurrently, with a limit."""

import asyncio
from collections.abc import Awaitable, Iterable

MAX_CONCURRENT = 16
"""Enough to hide the latency of requests; few enough for our share of the API server."""


async def gather_bounded(
    requests: Iterable[Awaitable[None]], max_concurrent: int = MAX_CONCURRENT
) -> None:
    """Awaits every request, at most `max_concurrent` at a time.

    The first exception is raised, after the requests under way have been cancelled.
    """
    remaining = iter(requests)

    async def work() -> None:
        for request in remaining:
            await request

    workers = [asyncio.create_task(work()) for _ in range(max_concurrent)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
