"""What counts of a pod's answer."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict

import pytest
from aiohttp import web

from elastic_runtime import contract
from elastic_runtime.agent.control_server import Server
from elastic_runtime.contract import State, Status
from scheduler import runtime_call
from scheduler.runtime_call import (
    MAX_REPLY_BYTES,
    Answer,
    Call,
    Refusal,
    Silence,
    host,
    send,
)
from tests.fakes.agents import always
from tests.fakes.api_faults import hangs
from tests.fakes.runtime import ROOT_KEY, answering, loopback_address, signed
from tests.harness.late_cancellation import cancelled_when_late

ADDRESS = loopback_address(1)
KEY = contract.derive_key(ROOT_KEY, "research")
# of one write of a pod that sends without end
UNIT_BYTES = 64 << 10
TRAINING = Status(state=State.TRAINING, size=8)


async def ask() -> Answer:
    return await send(ADDRESS, contract.PORT, Call((KEY,), "u", "GET", contract.STATUS_PATH))


async def answer_of(status: int, body: bytes, key: bytes = KEY) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return signed(request, status, body, key)

    async with answering(ADDRESS, answer):
        return await ask()


class FloodingPod:
    """Answers a request with `part`, again and again until the connection ends."""

    def __init__(self, part: bytes) -> None:
        self._parts = part * (UNIT_BYTES // len(part))
        # what the connection took, also into the buffers of the system
        self.sent_bytes = 0

    async def answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(0)
        with suppress(OSError):
            while not writer.is_closing():
                writer.write(self._parts)
                await writer.drain()
                self.sent_bytes += len(self._parts)


@asynccontextmanager
async def flooding(part: bytes) -> AsyncIterator[FloodingPod]:
    pod = FloodingPod(part)
    listener = socket.create_server((ADDRESS, contract.PORT))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNIT_BYTES)
    async with await asyncio.start_server(pod.answer, sock=listener):
        yield pod


async def test_the_answer_is_a_status() -> None:
    assert await answer_of(200, contract.encode(TRAINING)) == TRAINING


async def test_an_answer_that_another_teams_key_signed_does_not_count() -> None:
    forged = await answer_of(200, contract.encode(TRAINING), contract.derive_key(ROOT_KEY, "other"))
    assert forged == Silence("its answer 200 is not signed by the key of its namespace")


async def test_a_pod_that_does_not_run_is_silent() -> None:
    assert isinstance(await ask(), Silence)


@pytest.mark.parametrize(
    ("status", "is_final"),
    [
        pytest.param(400, True, id="a size that the job cannot have"),
        pytest.param(409, True, id="a later request holds"),
        pytest.param(401, False, id="the coordinator had the request already"),
        pytest.param(502, False, id="the coordinator does not answer"),
        pytest.param(503, False, id="no coordinator is known"),
    ],
)
async def test_another_pod_may_answer_unless_the_job_refuses(
    status: int, *, is_final: bool
) -> None:
    answer = await answer_of(status, b"{}")
    assert isinstance(answer, Refusal if is_final else Silence)
    assert not isinstance(answer, Refusal) or answer.is_final


async def test_of_a_pod_that_does_not_accept_our_signature_the_refusal_is_not_final() -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.json_response({"message": "wrong signature"}, status=401)

    async with answering(ADDRESS, refuse):
        answer = await ask()
    assert answer == Refusal(401, '{"message": "wrong signature"}')
    assert not answer.is_final


@pytest.mark.parametrize(
    ("padding", "is_read"),
    [(MAX_REPLY_BYTES // 2, True), (MAX_REPLY_BYTES, False)],
    ids=["in parts", "above the limit"],
)
async def test_an_answer_is_read_to_its_end_within_the_limit(
    padding: int, *, is_read: bool
) -> None:
    body = json.dumps(asdict(TRAINING) | {"unknown_field": "x" * padding}).encode()
    assert isinstance(await answer_of(200, body), Status if is_read else Silence)


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        pytest.param(b"HTTP/1.1 102 P\r\n\r\n", "102 is an interim answer", id="interim answers"),
        pytest.param(
            b"HTTP/1.1 200\r\n\r\n", "its Content-Length is missing", id="surplus answers"
        ),
        pytest.param(b"a: b\r\n", "Separator is not found, and chunk exceed", id="headers"),
        pytest.param(b"x", "Separator is not found, and chunk exceed", id="no line"),
    ],
)
async def test_of_an_answer_without_end_few_bytes_are_read(part: bytes, reason: str) -> None:
    """Otherwise the event loop, which renews the Lease too, reads them for as long as it waits."""
    async with flooding(part) as pod:
        answer = await ask()
    assert isinstance(answer, Silence)
    assert answer.reason.startswith(reason)
    assert pod.sent_bytes < 8 * UNIT_BYTES


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"HTTP/1.1 OK", id="no status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -1", id="a negative length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000, id="a length of digits"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", id="chunks"),
        pytest.param(b"", id="no line"),
    ],
)
async def test_what_is_no_answer_of_a_runtime_does_not_count(head: bytes) -> None:
    async with flooding(head + b"\r\n\r\n"):
        assert isinstance(await ask(), Silence)


@pytest.mark.parametrize(
    ("address", "expected"), [("10.0.0.1", "10.0.0.1:80"), ("fd00::1", "[fd00::1]:80")]
)
def test_an_ipv6_address_stands_in_brackets(address: str, expected: str) -> None:
    assert host(address, 80) == expected


@pytest.mark.parametrize(
    ("known", "keys"),
    [
        pytest.param(b"new", (b"new", b"old"), id="a pod that has read the new key"),
        pytest.param(b"old", (b"new", b"old"), id="one that knows only the key before"),
    ],
)
async def test_a_pod_is_reached_with_whichever_key_it_knows(
    known: bytes, keys: tuple[bytes, ...]
) -> None:
    async def status(*_: object) -> tuple[int, bytes]:
        return 200, contract.encode(TRAINING)

    server = Server(always(known), "u", status, lambda: "")
    await server.start(contract.PORT, ADDRESS)
    try:
        call = Call(keys, "u", "GET", contract.STATUS_PATH)
        assert await send(ADDRESS, contract.PORT, call) == TRAINING
    finally:
        await server.stop()


async def test_a_coordinator_that_knows_only_the_key_before_is_reached_by_another_pod() -> None:
    """The other pod knows both, and passes on what the coordinator says."""
    new_key, asked = b"new", list[bytes]()

    async def pass_on(request: web.Request) -> web.Response:
        keys, body = (new_key, KEY), await request.read()
        key = contract.key_of_request(keys, request.method, request.path, request.headers, body)
        asked.append(key)
        if key == new_key:
            refusal = f'{{"message": "{contract.WRONG_SIGNATURE}"}}'.encode()
            return signed(request, 401, refusal, key)
        return signed(request, 200, contract.encode(TRAINING), key)

    async with answering(ADDRESS, pass_on):
        call = Call((new_key, KEY), "u", "GET", contract.STATUS_PATH)
        assert await send(ADDRESS, contract.PORT, call) == TRAINING
    assert asked == [new_key, KEY]


async def test_a_call_that_is_cancelled_when_its_time_is_over_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runtime_call, "CALL_S", 0.05)
    asked = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        asked.set()
        return await hangs()(request)

    async with answering(ADDRESS, hang):
        call = asyncio.create_task(ask())
        await cancelled_when_late(call, 0.05, until=asked.is_set)
