"""What the jobs are asked and what of their answers is believed."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict

import pytest
from aiohttp import web

from elastic_runtime import contract
from elastic_runtime.contract import SizeRequest, State, Status
from scheduler.runtime_client import LIMIT, Runtimes, Target
from tests.fakes.kueue import ROOT, Runtime

JOB = ("research", "gpt")
ADDRESS = "127.0.0.11"
TARGET = Target(JOB, "u", ADDRESS)


@asynccontextmanager
async def following(*targets: Target) -> AsyncIterator[Runtimes]:
    async with Runtimes(lambda: ROOT, lambda: None) as runtimes:
        runtimes.follow(targets)
        await runtimes.hear()
        yield runtimes


async def test_what_a_runtime_says_is_heard() -> None:
    async with Runtime(ADDRESS, "research", "u", 8), following(TARGET) as runtimes:
        assert runtimes.statuses()["u"].size == 8


async def test_a_wish_is_told_beside_the_loop_and_its_answer_heard() -> None:
    heard = asyncio.Event()
    async with (
        Runtime(ADDRESS, "research", "u", 8) as runtime,
        Runtimes(lambda: ROOT, heard.set) as runtimes,
    ):
        runtimes.ask(JOB, "u", ADDRESS, SizeRequest(4, "c-1", 30.0))
        async with asyncio.timeout(5):
            await heard.wait()
        runtimes.ask(JOB, "u", ADDRESS, SizeRequest(4, "c-1", 29.0))
        assert runtimes.statuses()["u"].wanted == 4
    assert runtime.asked == [(4, "c-1")], "the same again within a second is not said"


@asynccontextmanager
async def answering(
    answer: Callable[[web.Request], Awaitable[web.Response]],
) -> AsyncIterator[None]:
    """A runtime that answers everything so."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, ADDRESS, contract.PORT).start()
    try:
        yield
    finally:
        await runner.cleanup()


async def test_an_answer_that_is_not_signed_with_the_namespaces_key_is_silence() -> None:
    async def forge(request: web.Request) -> web.Response:
        body = contract.encode(Status(state=State.TRAINING, size=1))
        stranger = contract.derive_key(ROOT, "another-team")
        return web.Response(
            body=body, headers=contract.sign_reply(stranger, 200, request.headers, body)
        )

    async with answering(forge), following(TARGET) as runtimes:
        assert not runtimes.statuses()


@pytest.mark.parametrize(
    ("more", "heard"),
    [(LIMIT // 2, {"u"}), (LIMIT, set[str]())],
    ids=["in pieces", "past the limit"],
)
async def test_an_answer_is_read_to_its_end_within_the_limit(more: int, heard: set[str]) -> None:
    async def answer(request: web.Request) -> web.Response:
        body = json.dumps(
            asdict(Status(state=State.TRAINING)) | {"of_tomorrow": "x" * more}
        ).encode()
        key = contract.derive_key(ROOT, "research")
        return web.Response(body=body, headers=contract.sign_reply(key, 200, request.headers, body))

    async with answering(answer), following(TARGET) as runtimes:
        assert set(runtimes.statuses()) == heard


async def test_who_does_not_answer_is_silent_and_stops_nobody() -> None:
    silent = Target(("research", "bert"), "b", "127.0.0.12")
    async with Runtime(ADDRESS, "research", "u", 8), following(silent, TARGET) as runtimes:
        assert set(runtimes.statuses()) == {"u"}


async def test_who_is_followed_no_longer_is_forgotten() -> None:
    async with Runtime(ADDRESS, "research", "u", 8), following(TARGET) as runtimes:
        runtimes.follow([])
        assert not runtimes.statuses()
