"""Idle and unfinished connections are bounded, and an honest review is answered beside them."""

import asyncio
import gc
import io
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import aiohttp
import pytest
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from cede.kube.webhook_secret import HOSTS
from tests.builders.jobs import TEAM, elastic_job, make_review
from tests.harness.certificates import fresh_certificates, serving_context
from webhook import connections as limits
from webhook.connections import Connections, listen
from webhook.server import VALIDATE, create_app

REVIEW = json.dumps(make_review(elastic_job())).encode()
HEAD = b"POST /validate HTTP/1.1\r\nHost: x\r\n"
FEW = 5
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Port:
    """A webhook with few connections, and peers of it."""

    def __init__(self, connections: Connections, number: int, trust: ssl.SSLContext) -> None:
        self.connections = connections
        self.number = number
        self.trust = trust
        self.peers = AsyncExitStack()

    async def connect(self, *, tls: bool = True) -> asyncio.StreamReader:
        """A peer that sends nothing more."""
        reader, _ = await self.open(tls=tls)
        return reader

    async def begin_review(self) -> Streams:
        """A peer that has sent half of a review, of which the webhook has begun to read."""
        reader, writer = await self.open()
        writer.write(b"%bContent-Length: %d\r\nExpect: 100-continue\r\n\r\n" % (HEAD, len(REVIEW)))
        writer.write(REVIEW[:99])
        await reader.readuntil(b"100 Continue\r\n\r\n")
        return reader, writer

    async def begin_second_review(self) -> None:
        """A peer that has sent a review, and has begun another one."""
        reader, writer = await self.open()
        writer.write(b"%bContent-Length: %d\r\n\r\n%b" % (HEAD, len(REVIEW), REVIEW))
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"%bContent-Length: 9999\r\nExpect: 100-continue\r\n\r\n" % HEAD)
        await reader.readuntil(b"100 Continue\r\n\r\n")

    async def open(self, *, tls: bool = True) -> Streams:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            self.number,
            ssl=self.trust if tls else None,
            server_hostname=HOSTS[0] if tls else None,
        )
        self.peers.callback(writer.close)
        return reader, writer

    async def review(self, session: aiohttp.ClientSession) -> bool:
        url = f"https://127.0.0.1:{self.number}{VALIDATE}"
        async with session.post(url, data=io.BytesIO(REVIEW), server_hostname=HOSTS[0]) as reply:
            return bool((await reply.json())["response"]["allowed"])

    def session(self) -> aiohttp.ClientSession:
        """As an API server: it keeps its connection."""
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.trust, limit=1))


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Port]:
    monkeypatch.setattr(limits, "MAX_STRANGERS", FEW)
    monkeypatch.setattr(limits, "MAX_ANSWERING", 2 * FEW)
    monkeypatch.setattr(limits, "MAX_IDLE", 2 * FEW)
    certificates = fresh_certificates()
    connections = Connections()
    runner = web.AppRunner(create_app(lambda namespace: TEAM, connections), access_log=None)
    await runner.setup()
    assert runner.server is not None
    trust = ssl.create_default_context(cadata=certificates.bundle)
    with listen(0) as listener:
        serving = asyncio.create_task(
            connections.serve(listener, runner.server, serving_context(certificates))
        )
        port = Port(connections, listener.getsockname()[1], trust)
        async with port.peers, asyncio.timeout(20):
            yield port
        serving.cancel()
        await asyncio.wait([serving])
    await runner.cleanup()


@pytest.mark.parametrize("tls", [True, False], ids=["after the handshake", "no handshake"])
async def test_the_oldest_strangers_make_room_and_reviews_are_answered(
    port: Port, tls: bool
) -> None:
    """As many idle connections as took all memory before, on a smaller scale."""
    async with port.session() as before, port.session() as after:
        assert await port.review(before)
        peers = [await port.connect(tls=tls) for _ in range(4 * FEW)]
        assert await port.review(before)
        assert await port.review(after)
        assert len(port.connections) <= FEW + 2
        # the oldest have been closed, not the newest
        for reader in peers[: 2 * FEW]:
            with_error = await asyncio.gather(reader.read(1), return_exceptions=True)
            assert with_error[0] == b"" or isinstance(with_error[0], ConnectionError)


async def test_a_first_review_is_answered_while_others_connect_and_send_nothing(port: Port) -> None:
    """A new connection of an API server: failurePolicy Ignore lets in what is not answered."""
    reader, writer = await port.begin_review()
    for _ in range(3 * FEW):
        await port.connect()
    writer.write(REVIEW[99:])
    assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")


async def test_first_reviews_that_do_not_end_are_bounded_and_keep_room_for_others(
    port: Port,
) -> None:
    oldest, _ = await port.begin_review()
    for _ in range(2 * FEW):
        await port.begin_review()
    with suppress(ConnectionError):
        assert await oldest.read(1) == b""
    assert len(port.connections) <= FEW + 1
    async with port.session() as session:
        assert await port.review(session)


async def test_known_connections_are_bounded_too(port: Port) -> None:
    async with AsyncExitStack() as sessions:
        for _ in range(4 * FEW):
            session = await sessions.enter_async_context(port.session())
            assert await port.review(session)
        # the newest was silent when it arrived
        assert len(port.connections) <= 2 * FEW + 1


async def test_reviews_that_do_not_end_are_bounded_on_known_connections_too(port: Port) -> None:
    """And another API server's new connection has room beside them."""
    for _ in range(4 * FEW):
        await port.begin_second_review()
    assert len(port.connections) <= 2 * FEW + 1
    async with port.session() as session:
        assert await port.review(session)


async def test_a_review_is_answered_while_reviews_that_do_not_end_take_all_connections(
    port: Port,
) -> None:
    """Of reviews in flight the oldest goes, not a new one of an API server."""
    for _ in range(2 * FEW):
        await port.begin_second_review()
    reader, writer = await port.begin_review()
    for _ in range(FEW):
        await port.begin_second_review()
    writer.write(REVIEW[99:])
    assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")


async def test_who_sends_no_review_is_closed_soon_and_an_api_server_is_not(port: Port) -> None:
    async with port.session() as session:
        assert await port.review(session)
        reader = await port.connect()
        now = asyncio.get_running_loop().time()
        port.connections.sweep(now + limits.STRANGER_TIMEOUT_S + 1)
        assert await reader.read(1) == b""
        assert len(port.connections) == 1
        port.connections.sweep(now + limits.IDLE_TIMEOUT_S + 5)
        assert len(port.connections) == 0


async def test_connections_that_have_ended_take_no_memory_after_a_sweep(
    port: Port, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the sweep they wait for Python's own collection, which comes after thousands. They
    leave no error in the log either."""
    monkeypatch.setattr(limits, "COLLECT_AFTER", FEW)
    gc.disable()
    try:
        readers = [(await port.begin_review())[0] for _ in range(4 * FEW)]
        ended = [reader.read() for reader in readers[: 3 * FEW]]
        await asyncio.gather(*ended, return_exceptions=True)
        port.connections.sweep(asyncio.get_running_loop().time())
        # and the one that was accepted last
        assert sum(type(kept) is RequestHandler for kept in gc.get_objects()) <= FEW + 1
        assert "ERROR" not in {record.levelname for record in caplog.records}
    finally:
        gc.enable()


async def test_a_review_that_never_ends_is_refused_in_time(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhook.server.ANSWER_WITHIN_S", 0.2)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port.number, ssl=port.trust, server_hostname=HOSTS[0]
    )
    port.peers.callback(writer.close)
    writer.write(HEAD + b"Content-Length: 9999\r\n\r\n" + REVIEW[:99])
    assert b"try again" in await reader.readuntil(b"}}}")
    now = asyncio.get_running_loop().time()
    port.connections.sweep(now + limits.STRANGER_TIMEOUT_S + 1)
    assert len(port.connections) == 0
