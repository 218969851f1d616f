"""Requests to the runtimes of jobs, and which of their answers count."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web

from cede.api.surplus import Base
from cede.kube.threads import run_in_thread
from elastic_runtime import contract
from elastic_runtime.contract import SizeRequest, Status
from scheduler.runtime_client import (
    CALL_TIMEOUT_S,
    MAX_TRIES,
    Endpoint,
    RuntimeClient,
)
from tests.fakes.api_faults import hangs
from tests.fakes.runtime import ROOT_KEY, Runtime, answering, loopback_address, signed

JOB = ("research", "gpt")
ADDRESS = loopback_address(1)
SILENT_ADDRESS = loopback_address(2)
ENDPOINT = Endpoint(JOB, "u", (ADDRESS,))


@asynccontextmanager
async def following(*endpoints: Endpoint) -> AsyncIterator[RuntimeClient]:
    """A client that has polled each of these runtimes once."""
    async with RuntimeClient(lambda: (ROOT_KEY,), lambda: None) as runtimes:
        runtimes.follow(endpoints)
        await runtimes.poll_all()
        yield runtimes


async def knows_no_coordinator(request: web.Request) -> web.Response:
    """While the members elect one."""
    return signed(request, 503, b"{}")


async def does_not_accept_the_signature(_: web.Request) -> web.Response:
    """As a pod whose clock is ahead, a moment after its start."""
    return web.json_response({"message": "sent before this pod started"}, status=401)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_the_status_of_a_runtime_is_read() -> None:
    async with Runtime(ADDRESS, "research", "u", 8), following(ENDPOINT) as runtimes:
        assert runtimes.statuses()["u"].size == 8


async def test_a_size_request_is_sent_once_a_second_and_its_answer_read() -> None:
    changed = asyncio.Event()
    async with (
        Runtime(ADDRESS, "research", "u", 8) as runtime,
        RuntimeClient(lambda: (ROOT_KEY,), changed.set) as runtimes,
    ):
        runtimes.request_size(ENDPOINT, SizeRequest(4, "c-1", 30.0))
        async with asyncio.timeout(5):
            await changed.wait()
        runtimes.request_size(ENDPOINT, SizeRequest(4, "c-1", 29.0))
        assert runtimes.statuses()["u"].wanted == 4
    assert runtime.requests == [(4, "c-1")]


async def test_a_surplus_is_asked_by_the_runtime_of_its_base() -> None:
    endpoint = Endpoint(JOB, "more", (ADDRESS,), base=Base("js", "gpt-node-0", "u", 2))
    async with (
        Runtime(ADDRESS, "research", "u", 8) as runtime,
        following(endpoint) as runtimes,
    ):
        assert runtimes.statuses()["more"].size == 6
        runtimes.request_size(endpoint, SizeRequest(0, "c-1", 30.0))
        await until(lambda: runtime.requests)
    assert runtime.requests == [(2, "c-1")]


async def test_a_runtime_that_does_not_answer_delays_no_other() -> None:
    silent = Endpoint(("research", "bert"), "b", (SILENT_ADDRESS,))
    async with Runtime(ADDRESS, "research", "u", 8), following(silent, ENDPOINT) as runtimes:
        assert set(runtimes.statuses()) == {"u"}


async def test_the_status_of_a_runtime_no_longer_followed_is_forgotten() -> None:
    async with Runtime(ADDRESS, "research", "u", 8), following(ENDPOINT) as runtimes:
        runtimes.follow([])
        assert not runtimes.statuses()


async def test_a_job_that_starts_to_change_is_polled_at_once() -> None:
    async with Runtime(ADDRESS, "research", "u", 8) as runtime, following(ENDPOINT) as runtimes:
        # the first poll of the follower itself
        await asyncio.sleep(0.1)
        runtime.status = replace(runtime.status, step=11)
        runtimes.follow([replace(ENDPOINT, is_changing=True)])
        async with asyncio.timeout(1.5):
            while runtimes.statuses()["u"].step != 11:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_another_pod_is_asked_when_one_does_not_answer() -> None:
    """It is asked first from then on."""
    job = Endpoint(JOB, "u", (SILENT_ADDRESS, ADDRESS))
    async with Runtime(ADDRESS, "research", "u", 8) as other, following(job) as runtimes:
        assert runtimes.statuses()["u"].size == 8
        async with Runtime(SILENT_ADDRESS, "research", "u", 4) as back:
            runtimes.request_size(job, SizeRequest(6, "c-1"))
            await until(lambda: other.requests)
            assert not back.requests


async def test_a_size_is_requested_of_another_pod_when_one_knows_no_coordinator() -> None:
    async with (
        answering(SILENT_ADDRESS, knows_no_coordinator),
        Runtime(ADDRESS, "research", "u", 8) as other,
        RuntimeClient(lambda: (ROOT_KEY,), lambda: None) as runtimes,
    ):
        job = Endpoint(JOB, "u", (SILENT_ADDRESS, ADDRESS))
        runtimes.request_size(job, SizeRequest(6, "c-1"))
        await until(lambda: other.requests == [(6, "c-1")])


async def test_a_job_whose_pods_know_no_coordinator_is_observed() -> None:
    """Also beside a pod that does not answer."""
    job = Endpoint(JOB, "u", (ADDRESS, SILENT_ADDRESS))
    async with answering(ADDRESS, knows_no_coordinator), following(job) as runtimes:
        assert runtimes.observations()["u"].is_leaderless
    async with following(Endpoint(JOB, "u", (SILENT_ADDRESS,))) as runtimes:
        assert not runtimes.observations()


async def test_every_pod_of_a_job_gets_the_report_and_its_answer_is_no_status() -> None:
    calls = list[str]()

    async def answer(request: web.Request) -> web.Response:
        calls.append(f"{request.method} {request.path} {request.url.host}")
        return signed(request, 200, contract.encode(Status()))

    async with (
        answering(ADDRESS, answer),
        answering(SILENT_ADDRESS, answer),
        RuntimeClient(lambda: (ROOT_KEY,), lambda: None) as runtimes,
    ):
        runtimes.report_finish(Endpoint(JOB, "u", (ADDRESS, SILENT_ADDRESS)))
        await until(lambda: len(calls) == 2)
        assert runtimes.observations()["u"].finish_reported > 0
    assert not runtimes.statuses()
    assert sorted(calls) == sorted(
        f"POST {contract.FINISHED_PATH} {address}" for address in (ADDRESS, SILENT_ADDRESS)
    )


async def test_of_a_job_that_does_not_answer_some_pods_are_asked_each_time() -> None:
    """Others each time, so every pod has its turn."""
    asked = list[str]()

    async def count(request: web.Request) -> web.Response:
        asked.append(request.url.host or "")
        return await knows_no_coordinator(request)

    addresses = tuple(loopback_address(10 + index) for index in range(MAX_TRIES + 1))
    async with (
        AsyncExitStack() as stack,
        RuntimeClient(lambda: (ROOT_KEY,), lambda: None) as runtimes,
    ):
        for address in addresses:
            await stack.enter_async_context(answering(address, count))
        runtimes.follow([Endpoint(JOB, "u", addresses)])
        # the follower polls too
        await until(lambda: len(asked) == MAX_TRIES)
        await runtimes.poll_all()
        first, *others = asked[MAX_TRIES:]
    assert tuple(asked[:MAX_TRIES]) == addresses[:MAX_TRIES]
    assert (first, *others) == (addresses[-1], *addresses[: MAX_TRIES - 1])


async def test_a_job_that_refuses_is_asked_once() -> None:
    async def refuse(request: web.Request) -> web.Response:
        return signed(request, 409, b"{}")

    async with (
        answering(SILENT_ADDRESS, refuse),
        Runtime(ADDRESS, "research", "u", 8) as other,
        following(Endpoint(JOB, "u", (SILENT_ADDRESS, ADDRESS))) as runtimes,
    ):
        assert other.polls == 0
        assert not runtimes.statuses()


@pytest.mark.slow
async def test_pods_that_are_frozen_keep_a_call_waiting_for_its_time_only() -> None:
    addresses = tuple(loopback_address(20 + index) for index in range(MAX_TRIES))
    async with (
        AsyncExitStack() as stack,
        RuntimeClient(lambda: (ROOT_KEY,), lambda: None) as runtimes,
    ):
        for address in addresses:
            await stack.enter_async_context(answering(address, hangs()))
        runtimes.follow([Endpoint(JOB, "u", addresses)])
        began = time.monotonic()
        await runtimes.poll_all()
        assert CALL_TIMEOUT_S - 0.1 < time.monotonic() - began < 2 * CALL_TIMEOUT_S


@pytest.mark.parametrize(
    "addresses",
    [
        pytest.param((ADDRESS,), id="by the only pod"),
        pytest.param((SILENT_ADDRESS, ADDRESS), id="after a pod that does not run"),
        pytest.param((ADDRESS, SILENT_ADDRESS), id="before a pod that does not run"),
    ],
)
async def test_a_refused_signature_raises_doubts_about_the_root_key(
    addresses: tuple[str, ...],
) -> None:
    doubts = list[bool]()
    async with (
        answering(ADDRESS, does_not_accept_the_signature),
        RuntimeClient(
            lambda: (ROOT_KEY,), lambda: None, refused=lambda: doubts.append(True)
        ) as runtimes,
    ):
        runtimes.follow([Endpoint(JOB, "u", addresses)])
        await runtimes.poll_all()
        assert doubts
        assert not runtimes.statuses()


async def test_a_signature_that_another_pod_accepts_raises_no_doubts() -> None:
    doubts = list[bool]()
    async with (
        answering(SILENT_ADDRESS, does_not_accept_the_signature),
        Runtime(ADDRESS, "research", "u", 8),
        RuntimeClient(
            lambda: (ROOT_KEY,), lambda: None, refused=lambda: doubts.append(True)
        ) as runtimes,
    ):
        runtimes.follow([Endpoint(JOB, "u", (SILENT_ADDRESS, ADDRESS))])
        await runtimes.poll_all()
        assert runtimes.statuses()["u"].size == 8
        assert not doubts


async def test_what_was_observed_is_kept_while_no_pod_runs() -> None:
    async with Runtime(ADDRESS, "research", "u", 8), following(ENDPOINT) as runtimes:
        first = runtimes.observations()["u"]
        runtimes.follow([replace(ENDPOINT, addresses=())])
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


async def test_all_jobs_are_heard_while_the_scheduler_plans() -> None:
    """50 calls are under way, and the pass ends after the last answer, however fast the machine."""
    endpoints = [
        Endpoint(("research", f"j{index}"), f"u{index}", (loopback_address(60 + index),))
        for index in range(50)
    ]

    all_answered = threading.Event()

    def plan() -> None:
        end = time.monotonic() + 60
        while not all_answered.is_set() and time.monotonic() < end:
            sum(range(1000))

    async with (
        AsyncExitStack() as stack,
        RuntimeClient(lambda: (ROOT_KEY,), lambda: None) as runtimes,
    ):
        for endpoint in endpoints:
            runtime = Runtime(endpoint.addresses[0], "research", endpoint.uid, 8)
            await stack.enter_async_context(runtime)
        planning = asyncio.create_task(run_in_thread(plan))
        runtimes.follow(endpoints)
        while len(runtimes.observations()) < 50 and not planning.done():
            await runtimes.poll_all()
        assert not planning.done()
        all_answered.set()
        await planning
