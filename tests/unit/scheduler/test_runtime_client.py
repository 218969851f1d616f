"""Requests to the runtimes of jobs, and which of their answers count."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, replace

import pytest
from aiohttp import web

from cede.kube.threads import run_in_thread
from elastic_runtime import contract
from elastic_runtime.contract import SizeRequest, State, Status
from scheduler.runtime_client import (
    MAX_FAST_S,
    MAX_REPLY_BYTES,
    PATIENT_FAILURES,
    Endpoint,
    RuntimeClient,
    poll_pause_s,
    runtime_url,
)
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


@pytest.mark.parametrize(
    ("address", "url"),
    [("10.0.0.1", "http://10.0.0.1:80/v1"), ("fd00::1", "http://[fd00::1]:80/v1")],
)
def test_an_ipv6_address_stands_in_brackets(address: str, url: str) -> None:
    assert runtime_url(address, 80, "/v1") == url


@pytest.mark.parametrize(
    ("failures", "changing_s", "pause_s"),
    [
        pytest.param(0, None, 2.0, id="a job that does not change"),
        pytest.param(0, 0.0, 0.1, id="a job that changes"),
        pytest.param(0, MAX_FAST_S, 1.0, id="a job that changes for long"),
        pytest.param(PATIENT_FAILURES, None, 2.0, id="a job that starts"),
        pytest.param(PATIENT_FAILURES + 1, None, 4.0, id="a dead address"),
        pytest.param(PATIENT_FAILURES + 50, None, 16.0, id="a dead address, for long"),
        pytest.param(PATIENT_FAILURES + 50, 0.0, 1.0, id="a dead address of a target"),
    ],
)
def test_the_pause_until_the_next_poll(
    failures: int, changing_s: float | None, pause_s: float
) -> None:
    assert poll_pause_s(failures, changing_s) == pause_s


async def test_a_job_that_starts_to_change_is_polled_at_once() -> None:
    async with Runtime(ADDRESS, "research", "u", 8) as runtime, following(ENDPOINT) as runtimes:
        # the first poll of the follower itself
        await asyncio.sleep(0.1)
        runtime.status = replace(runtime.status, step=11)
        runtimes.follow([replace(ENDPOINT, is_changing=True)])
        async with asyncio.timeout(1.5):
            while runtimes.statuses()["u"].step != 11:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_a_refused_signature_raises_doubts_about_the_root_key() -> None:
    doubts = list[bool]()

    async def refuse(_: web.Request) -> web.Response:
        return web.json_response({"message": "wrong signature"}, status=401)

    async with (
        answering(refuse),
        RuntimeClient(
            lambda: ROOT_KEY, lambda: None, refused=lambda: doubts.append(True)
        ) as runtimes,
    ):
        runtimes.follow([ENDPOINT])
        await runtimes.poll_all()
        assert doubts
        assert not runtimes.statuses()


async def test_what_was_observed_is_kept_while_pod_0_is_replaced() -> None:
    async with Runtime(ADDRESS, "research", "u", 8), following(ENDPOINT) as runtimes:
        first = runtimes.observations()["u"]
        runtimes.follow([replace(ENDPOINT, address="")])
        assert runtimes.observations() == {"u": first}
        assert not runtimes.statuses()
        runtimes.follow([])
        assert not runtimes.observations()


async def test_a_request_is_forgotten_once_the_job_has_its_size() -> None:
    async with Runtime(ADDRESS, "research", "u", 8), following(ENDPOINT) as runtimes:
        runtimes.request_size(ENDPOINT, SizeRequest(size=6, cession="excess"))
        runtimes.follow([replace(ENDPOINT, size=8)])
        assert runtimes.observations()["u"].asked_for == "excess"
        runtimes.follow([replace(ENDPOINT, size=6)])
        assert not runtimes.observations()["u"].asked_for


@pytest.mark.slow
async def test_no_answer_is_lost_while_the_scheduler_plans() -> None:
    """50 calls are under way while a pass takes longer than the timeout of a call."""
    endpoints = [
        Endpoint(("research", f"j{index}"), f"u{index}", loopback_address(60 + index))
        for index in range(50)
    ]

    all_polled = threading.Event()

    def plan() -> None:
        end = time.monotonic() + 2.5
        while time.monotonic() < end or not all_polled.is_set():
            sum(range(1000))

    async with (
        AsyncExitStack() as stack,
        RuntimeClient(lambda: ROOT_KEY, lambda: None) as runtimes,
    ):
        for endpoint in endpoints:
            runtime = Runtime(endpoint.address, "research", endpoint.uid, 8)
            await stack.enter_async_context(runtime)
        planning = asyncio.create_task(run_in_thread(plan))
        runtimes.follow(endpoints)
        try:
            await runtimes.poll_all()
            assert len(runtimes.statuses()) == 50
        finally:
            all_polled.set()
            await planning
