"""Calls are signed both ways, and a connection serves many of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest

from elastic_runtime.agent import control_client, control_server
from elastic_runtime.agent.control_client import Connection
from tests.fakes.agents import KEYS

JOB = "uid"
HOST = "127.0.0.1"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def call_foreign_server(handler: Handler, call: Callable[[int], Awaitable[object]]) -> None:
    """Make the call to a server that is not ours, which is closed afterwards."""
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await handler(reader, writer)
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        await call(server.sockets[0].getsockname()[1])
        await closed.wait()


async def test_request_is_signed_when_the_connection_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pod refuses what was signed before it started, so no wait for its port may come between."""
    clock = [1000.0]
    heads = list[bytes]()
    open_connection = asyncio.open_connection

    async def connect(host: str, port: int, *, limit: int) -> object:
        streams = await open_connection(host, port, limit=limit)
        clock[0] = 2000.0
        return streams

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))

    async def call(port: int) -> None:
        with pytest.raises(OSError, match="broke off"):
            await control_client.call("127.0.0.1", port, KEYS, JOB, "GET", "/v1/status")

    monkeypatch.setattr(asyncio, "open_connection", connect)
    monkeypatch.setattr(time, "time", lambda: clock[0])
    await call_foreign_server(note, call)
    assert b"Cede-Time: 2000.000" in heads[0]


async def test_reply_that_is_not_signed_by_the_job_is_refused() -> None:
    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async def call(port: int) -> None:
        with pytest.raises(control_client.Refused, match="not signed by this job's key"):
            await control_client.call("127.0.0.1", port, KEYS, JOB, "GET", "/v1/status")

    await call_foreign_server(impostor, call)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"garbage\r\n\r\n", id="line of one word"),
        pytest.param(b"HTTP/1.1 fine\r\n\r\n", id="status is no number"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", id="length is no number"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            id="length past every limit",
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", id="half a body"),
    ],
)
async def test_invalid_reply_is_a_connection_error(reply: bytes) -> None:
    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)

    async def call(port: int) -> None:
        with pytest.raises(ConnectionResetError, match=f"{port} broke off"):
            await control_client.call("127.0.0.1", port, KEYS, JOB, "GET", "/v1/status")

    await call_foreign_server(stranger, call)


async def test_call_without_a_reply_times_out() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def call(port: int) -> None:
        with pytest.raises(TimeoutError):
            await control_client.call("127.0.0.1", port, KEYS, JOB, "GET", "/", timeout_s=0.05)

    await call_foreign_server(silent, call)


# --- many calls on one connection -----------------------------------------------------------------


class Port:
    """A control port that counts its connections, and answers what it is told to."""

    def __init__(self) -> None:
        self.connections = 0
        self.delay_s = 0.0
        self.number = 0
        self.received = asyncio.Event()

    async def start(self, number: int = 0) -> None:
        self._server = control_server.Server(KEYS, JOB, self._answer, lambda: "")
        serve = self._server._serve_connection

        async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            await serve(reader, writer)

        self._server._serve_connection = count  # type: ignore[method-assign]
        self.number = await self._server.start(number, HOST)

    async def stop(self) -> None:
        await self._server.stop()

    async def _answer(
        self, _: str, path: str, __: Mapping[str, str], ___: bytes
    ) -> tuple[int, bytes]:
        self.received.set()
        delay_s, self.delay_s = self.delay_s, 0.0
        await asyncio.sleep(delay_s)
        return (404, b'{"message": "no"}') if path == "/no" else (200, path.encode())


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    port = Port()
    await port.start()
    yield port
    await port.stop()


@pytest.fixture
def connection(port: Port) -> Connection:
    return Connection(HOST, port.number, KEYS, JOB)


async def test_calls_share_a_connection_also_after_a_refusal(
    port: Port, connection: Connection
) -> None:
    assert not connection.is_open
    assert await connection.call("GET", "/1") == b"/1"
    with pytest.raises(control_client.Refused, match="404: no"):
        await connection.call("GET", "/no")
    assert await connection.call("GET", "/2") == b"/2"
    assert (port.connections, connection.is_open) == (1, True)
    connection.close()


async def test_a_call_after_the_other_side_went_fails_and_the_next_one_connects_again(
    port: Port, connection: Connection
) -> None:
    await connection.call("GET", "/1")
    await port.stop()
    with pytest.raises(ConnectionError):
        await connection.call("GET", "/2")
    assert not connection.is_open
    await port.start(port.number)
    assert await connection.call("GET", "/3") == b"/3"
    assert port.connections == 2
    connection.close()


async def test_calls_at_once_follow_each_other(port: Port, connection: Connection) -> None:
    """As when a pod ends while it reports."""
    port.delay_s = 0.1
    calls = [connection.call("GET", f"/{number}") for number in range(3)]
    assert await asyncio.gather(*calls) == [b"/0", b"/1", b"/2"]
    assert port.connections == 1
    connection.close()


async def test_a_call_that_waits_for_another_one_too_long_leaves_that_alone(
    port: Port, connection: Connection
) -> None:
    port.delay_s = 0.3
    first = asyncio.create_task(connection.call("GET", "/first"))
    await port.received.wait()
    with pytest.raises(TimeoutError):
        await connection.call("GET", "/second", timeout_s=0.05)
    assert await first == b"/first"
    assert port.connections == 1
    connection.close()


async def test_a_late_reply_is_not_taken_for_that_of_the_next_call(
    port: Port, connection: Connection
) -> None:
    port.delay_s = 0.2
    with pytest.raises(TimeoutError):
        await connection.call("GET", "/late", timeout_s=0.05)
    assert not connection.is_open
    assert await connection.call("GET", "/next") == b"/next"
    connection.close()


async def test_a_cancelled_call_closes_the_connection(port: Port, connection: Connection) -> None:
    port.delay_s = 60.0
    call = asyncio.create_task(connection.call("GET", "/cancelled"))
    await port.received.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not connection.is_open
