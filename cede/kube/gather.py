"""Many requests side by side, so many at a time."""

import asyncio
from collections.abc import Awaitable, Iterable

AT_ONCE = 16
"""Enough to fill a round trip; few enough for one client's fair share of the API server."""


async def bounded(acts: Iterable[Awaitable[None]], at_once: int = AT_ONCE) -> None:
    """Each act once, no more than `at_once` under way. The first that raises ends all, and its
    exception is raised."""
    waiting = iter(acts)

    async def work() -> None:
        for act in waiting:
            await act

    workers = [asyncio.create_task(work()) for _ in range(at_once)]
    try:
        await asyncio.gather(*workers)
    finally:
        for one in workers:
            one.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
