"""Concurrent requests with a limit."""

import asyncio

import pytest

from cede.kube.gather import gather_bounded


class Requests:
    def __init__(self) -> None:
        self.running = 0
        self.most_running = 0
        self.completed = 0

    async def request(self) -> None:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        self.completed += 1


async def test_every_request_is_awaited_and_never_more_than_the_limit() -> None:
    requests = Requests()
    await gather_bounded((requests.request() for _ in range(20)), max_concurrent=3)
    assert (requests.completed, requests.most_running) == (20, 3)


async def test_the_first_exception_ends_the_requests_under_way() -> None:
    cancelled = asyncio.Event()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("first")

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(KeyError, match="first"):
        await gather_bounded([waits(), fails()])
    assert cancelled.is_set()
