"""Connections to the control port: strangers take no place, file or time of the job's own pods."""

import asyncio
import os
import resource
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import agent, control_client, control_server
from tests.fakes.agents import KEY, KEYS
from tests.unit.elastic_runtime.agent.test_control_server import JOB, echo, request

# Another process opens 900 connections to a port, from three addresses, and sends nothing.
FLOOD = """
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, 2 * resource.getrlimit(resource.RLIMIT_NOFILE)[1:])
connections = []
for n in range(900):
    connection = socket.socket()
    connection.bind((f"127.0.0.{2 + n % 3}", 0))
    connection.connect(("127.0.0.1", int(sys.argv[1])))
    connections.append(connection)
print("open", flush=True)
time.sleep(60)
"""


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = control_server.Server(KEYS, JOB, echo, lambda: "elastic_runtime_step 7\n")
    yield await server.start(0, "127.0.0.1")
    await server.stop()


async def open_after(
    port: int, sent: bytes, address: str = "127.0.0.1"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection from `address` on which these bytes were answered, and that stays open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    writer.write(sent)
    if sent:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.rpartition(b"Content-Length: ")[2]))
    return reader, writer


@pytest.mark.parametrize("sent", [b"", request({})], ids=["idle", "after an unsigned request"])
@pytest.mark.parametrize(
    ("most", "of_address", "left"),
    [pytest.param(4, 512, 2, id="in all"), pytest.param(4096, 4, 4, id="of one address")],
)
async def test_strangers_take_no_ones_place_but_their_own(
    monkeypatch: pytest.MonkeyPatch, most: int, of_address: int, left: int, sent: bytes
) -> None:
    """Neither that of members nor, while there are places, that of strangers elsewhere."""
    monkeypatch.setattr(control_server, "MAX_UNSIGNED_OF_ADDRESS", of_address)
    # However slow the machine is.
    monkeypatch.setattr(control_server, "UNSIGNED_TIMEOUT_S", 60.0)
    server = control_server.Server(KEYS, JOB, echo, lambda: "", max_unsigned=most)
    port = await server.start(0, "127.0.0.1")
    signed = [
        contract.sign_request(KEY, "GET", "/v1/status", JOB, str(n), b"", time.time())
        for n in range(5)
    ]
    members = [await open_after(port, request(headers)) for headers in signed]
    first = await open_after(port, sent, "127.0.0.2")
    flood = [await open_after(port, sent, "127.0.0.3") for _ in range(5)]
    dropped, kept = flood[: 5 - left], flood[5 - left :]
    async with asyncio.timeout(5):
        call = control_client.call("127.0.0.1", port, KEYS, JOB, "GET", "/v1/status")
        assert await call == b"GET /v1/status "
        # The oldest of the address that has most of them.
        for reader, _ in dropped:
            assert await reader.read() == b""
    open_streams = [*members, first, *kept]
    assert not any(reader.at_eof() for reader, _ in open_streams)
    for _, connection in [*open_streams, *dropped]:
        connection.close()
    await server.stop()


async def test_strangers_leave_files_for_the_agent_below_the_limit() -> None:
    """Of more connections than the limit of open files allows, from several addresses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        server = control_server.Server(KEYS, JOB, echo, lambda: "", agent.allow_connections(1))
        port = await server.start(0, "127.0.0.1")
        flood = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", FLOOD, str(port)), stdout=asyncio.subprocess.PIPE
        )
        assert flood.stdout
        try:
            async with asyncio.timeout(60):
                assert await flood.stdout.readline() == b"open\n"
                call = control_client.call("127.0.0.1", port, KEYS, JOB, "GET", "/v1/status")
                assert await call == b"GET /v1/status "
            assert len(server._unsigned) <= control_server.BACKLOG
            os.close(os.dup(0))
        finally:
            flood.kill()
            await flood.wait()
            await server.stop()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("path", ["/metrics", "/v1/status"])
async def test_a_stranger_who_sends_request_after_request_gets_two_replies(
    port: int, path: str
) -> None:
    """So a client may still sign with the second of its keys."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(100 * request({}, path=path))
    replies = b""
    async with asyncio.timeout(5):
        with suppress(ConnectionResetError):
            while data := await reader.read(1 << 16):
                replies += data
    assert replies.count(b"HTTP/1.1 ") == 2
    writer.close()


async def test_others_take_their_turn_between_two_requests_of_a_connection() -> None:
    turns = 0
    turns_of_requests = list[int]()

    async def note_turn(*_: object) -> tuple[int, bytes]:
        turns_of_requests.append(turns)
        return 200, b""

    async def count_turns() -> None:
        nonlocal turns
        while len(turns_of_requests) < 50:
            turns += 1
            await asyncio.sleep(0)

    server = control_server.Server(KEYS, JOB, note_turn, lambda: "")
    port = await server.start(0, "127.0.0.1")
    signed = [
        contract.sign_request(KEY, "GET", "/v1/status", JOB, str(n), b"", time.time())
        for n in range(50)
    ]
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"".join(map(request, signed)))
    async with asyncio.timeout(10):
        await count_turns()
    assert len(set(turns_of_requests)) == 50
    writer.close()
    await server.stop()


@pytest.mark.parametrize("sent", [b"", request({})], ids=["nothing", "an unsigned request"])
async def test_a_stranger_has_a_short_time_to_sign(
    port: int, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(control_server, "UNSIGNED_TIMEOUT_S", 0.1)
    headers = contract.sign_request(KEY, "GET", "/v1/status", JOB, "slow", b"", time.time())
    member = await open_after(port, request(headers))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    async with asyncio.timeout(5):
        with suppress(ConnectionResetError):
            await reader.read()
    assert not member[0].at_eof()
    for connection in (member[1], writer):
        connection.close()


# More than the socket buffers hold.
LONG = 1 << 25


async def answer_at_length(*_: object) -> tuple[int, bytes]:
    return 200, b"7" * LONG


@pytest.mark.parametrize(
    ("path", "name"),
    [("/metrics", "UNSIGNED_TIMEOUT_S"), ("/v1/status", "IDLE_TIMEOUT_S")],
    ids=["a stranger", "a member"],
)
async def test_client_that_does_not_read_is_disconnected(
    monkeypatch: pytest.MonkeyPatch, path: str, name: str
) -> None:
    monkeypatch.setattr(control_server, name, 0.1)
    server = control_server.Server(KEYS, JOB, answer_at_length, lambda: "7" * LONG)
    signed = contract.sign_request(KEY, "GET", path, JOB, "long", b"", time.time())
    closed = asyncio.Event()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server._serve_connection(reader, writer)
        closed.set()

    async with await asyncio.start_server(connection, "127.0.0.1", 0) as listening:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", listening.sockets[0].getsockname()[1]
        )
        writer.write(request(signed, path=path))
        # The reply has begun.
        await reader.readline()
        async with asyncio.timeout(5):
            await closed.wait()
        # It ends before the whole reply is sent.
        assert len(await reader.read()) < LONG
        writer.close()
    assert not server._open


async def test_a_client_that_does_not_read_delays_no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 waits for none; from 3.12 on a server waits for the end of all connections."""
    monkeypatch.setattr(control_server, "STOP_TIMEOUT_S", 0.1)
    server = control_server.Server(KEYS, JOB, answer_at_length, lambda: "7" * LONG)
    port = await server.start(0, "127.0.0.1")
    signed = contract.sign_request(KEY, "GET", "/v1/status", JOB, "long", b"", time.time())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(signed))
    await reader.readline()
    async with asyncio.timeout(5):
        await server.stop()
    writer.transport.abort()


# Before that, asyncio may lose a socket that it accepts after the end of its server.
@pytest.mark.parametrize("turns", range(3, 8))
async def test_a_client_that_connects_while_the_server_stops_is_not_served(turns: int) -> None:
    """So many turns of the loop after its connection; in one of them it is accepted."""
    server = control_server.Server(KEYS, JOB, echo, lambda: "")
    port = await server.start(0, "127.0.0.1")
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setblocking(False)
        for _ in range(turns):
            await asyncio.sleep(0)
        await server.stop()
        with suppress(ConnectionError):
            client.sendall(request({}))
        for _ in range(20):
            await asyncio.sleep(0)
        with suppress(ConnectionError, BlockingIOError):
            assert client.recv(1) == b""
    assert not server._open
