"""Requests to the runtimes of jobs, and which of their answers count."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict

import pytest
from aiohttp import web

from elastic_runtime import contract
from elastic_runtime.contract import SizeRequest, State, Status
from scheduler.runtime_client import MAX_REPLY_BYTES, Endpoint, RuntimeClient
from tests.fakes.runtime import ROOT_KEY, Runtime, loopback_address

JOB = ("research", "gpt")
ADDRESS = loopback_address(1)
SILENT_ADDRESS = loopback_address(2)
ENDPOINT = Endpoint(JOB, "u", ADDRESS)


@asynccontextmanager
async def following(*endpoints: Endpoint) -> AsyncIterator[RuntimeClient]:
    """A client that has polled each of these runtimes once."""
    async with RuntimeClient(lambda: ROOT_KEY, lambda: None) as runtimes:
        runtimes.follow(endpoints)
        await runtimes.poll_all()
        yield runtimes


async def test_the_status_of_a_runtime_is_read() -> None:
    async with Runtime(ADDRESS, "research", "u", 8), following(ENDPOINT) as runtimes:
        assert runtimes.statuses()["u"].size == 8


async def test_a_size_request_is_sent_once_a_second_and_its_answer_read() -> None:
    changed = asyncio.Event()
    async with (
        Runtime(ADDRESS, "research", "u", 8) as runtime,
        RuntimeClient(lambda: ROOT_KEY, changed.set) as runtimes,
    ):
        runtimes.request_size(ENDPOINT, SizeRequest(4, "c-1", 30.0))
        async with asyncio.timeout(5):
            await changed.wait()
        runtimes.request_size(ENDPOINT, SizeRequest(4, "c-1", 29.0))
        assert runtimes.statuses()["u"].wanted == 4
    assert runtime.requests == [(4, "c-1")]


@asynccontextmanager
async def answering(
    answer: Callable[[web.Request], Awaitable[web.Response]],
) -> AsyncIterator[None]:
    """A runtime that answers every request like this."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, ADDRESS, contract.PORT).start()
    try:
        yield
    finally:
        await runner.cleanup()


async def test_an_answer_that_another_teams_key_signed_does_not_count() -> None:
    async def forge(request: web.Request) -> web.Response:
        body = contract.encode(Status(state=State.TRAINING, size=1))
        other_key = contract.derive_key(ROOT_KEY, "another-team")
        return web.Response(
            body=body, headers=contract.sign_reply(other_key, 200, request.headers, body)
        )

    async with answering(forge), following(ENDPOINT) as runtimes:
        assert not runtimes.statuses()


@pytest.mark.parametrize(
    ("padding", "answered"),
    [(MAX_REPLY_BYTES // 2, {"u"}), (MAX_REPLY_BYTES, set[str]())],
    ids=["in parts", "above the limit"],
)
async def test_an_answer_is_read_to_its_end_within_the_limit(
    padding: int, answered: set[str]
) -> None:
    async def answer(request: web.Request) -> web.Response:
        fields = asdict(Status(state=State.TRAINING)) | {"unknown_field": "x" * padding}
        body = json.dumps(fields).encode()
        key = contract.derive_key(ROOT_KEY, "research")
        return web.Response(body=body, headers=contract.sign_reply(key, 200, request.headers, body))

    async with answering(answer), following(ENDPOINT) as runtimes:
        assert set(runtimes.statuses()) == answered


async def test_a_runtime_that_does_not_answer_delays_no_other() -> None:
    silent = Endpoint(("research", "bert"), "b", SILENT_ADDRESS)
    async with Runtime(ADDRESS, "research", "u", 8), following(silent, ENDPOINT) as runtimes:
        assert set(runtimes.statuses()) == {"u"}


async def test_the_status_of_a_runtime_no_longer_followed_is_forgotten() -> None:
    async with Runtime(ADDRESS, "research", "u", 8), following(ENDPOINT) as runtimes:
        runtimes.follow([])
        assert not runtimes.statuses()
