"""Requests to save, and which of them a pod of the job has accepted."""

from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from elastic_runtime import contract
from tests.fakes.runtime import Runtime, answering, signed
from tests.unit.scheduler.test_runtime_client import (
    ADDRESS,
    ENDPOINT,
    does_not_accept_the_signature,
    following,
    knows_no_coordinator,
    until,
)


async def test_a_save_is_requested_once_and_what_accepted_it_is_observed() -> None:
    async with Runtime(ADDRESS, "research", "u", 8) as runtime, following(ENDPOINT) as runtimes:
        runtimes.request_save(ENDPOINT, "r, attempt 1")
        runtimes.request_save(ENDPOINT, "r, attempt 1")
        await until(lambda: runtimes.observations()["u"].save_accepted == "r, attempt 1")
        assert runtime.saves == 1
        runtimes.request_save(ENDPOINT, "r, attempt 2")
        await until(lambda: runtimes.observations()["u"].save_accepted == "r, attempt 2")
        assert runtime.saves == 2


async def knows_no_saves(request: web.Request) -> web.Response:
    """As a runtime whose contract lacks the call."""
    if request.method == "POST":
        return signed(request, 404, b'{"message": "no such call"}')
    return signed(request, 200, contract.encode(contract.Status()))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(knows_no_saves, "no such call", id="refused"),
        pytest.param(knows_no_coordinator, "none of its pods answers", id="silent"),
        pytest.param(does_not_accept_the_signature, "sent before this pod", id="not accepted"),
    ],
)
async def test_why_no_pod_accepts_a_request_to_save_is_observed(
    answer: Callable[[web.Request], Awaitable[web.Response]], reason: str
) -> None:
    async with answering(ADDRESS, answer), following(ENDPOINT) as runtimes:
        runtimes.request_save(ENDPOINT, "r, attempt 1")
        await until(lambda: "u" in runtimes.observations())
        await until(lambda: reason in runtimes.observations()["u"].save_refusal)
        assert not runtimes.observations()["u"].save_accepted
