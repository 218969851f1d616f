"""Who may ask the server of the page, and what it answers, over real HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from cede.api.objects import ACCESS_REVIEWS, CESSIONS, Key
from cede.dashboard import server as server_module
from cede.dashboard.feed import Feed
from cede.dashboard.page import Page, with_trouble
from cede.dashboard.visitor import Visitor
from cede.report.explanation import Explanation
from tests.builders.take_backs import cession
from tests.fakes.api_server import ApiServer
from tests.harness.page_reader import TOKEN, Reader, served, visitor

LARGE = 1 << 24
"""Bytes: more than the buffers of both sides hold."""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_nothing_is_written_through_it(reader: Reader, method: str) -> None:
    async with reader.session.request(
        method, f"{reader.url}api/page", headers=reader.headers
    ) as response:
        assert response.status == 405


async def test_of_the_cluster_it_asks_for_rights_and_writes_nothing(
    server: ApiServer, reader: Reader
) -> None:
    await reader.page()
    assert set(server.writes()) == {("POST", ACCESS_REVIEWS.path())}


@pytest.mark.parametrize("path", ["", "api/page", "nothing", "../server.py", "api/nothing"])
async def test_every_answer_has_the_strict_headers(reader: Reader, path: str) -> None:
    async with reader.session.get(reader.url + path, headers=reader.headers) as response:
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert response.headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in response.headers


# --- facts ----------------------------------------------------------------------------------------
async def test_the_page_is_compressed(reader: Reader) -> None:
    async with reader.session.get(f"{reader.url}api/page", headers=reader.headers) as response:
        assert response.headers["Content-Encoding"] in ("gzip", "deflate")


async def test_a_reader_whose_connection_broke_goes_on_where_it_was(
    server: ApiServer, reader: Reader
) -> None:
    version = (await reader.page())["version"]
    for name in ("first", "second"):
        server.put(CESSIONS, cession(name, "vision/detector", ("speech/tts", 6, 2)))
        await reader.until("takes", name, phase="Completed")
    names = list[str]()
    async for event, _, data in reader.changes(version):
        assert event == "change"
        names += data.get("takes", {}).get("set", {})
        if "second" in names:
            break
    assert names == ["first", "second"]


async def test_an_explanation_is_that_of_the_command(reader: Reader) -> None:
    status, text = await reader.get("api/explain/research/gpt-7b")
    assert status == 200
    explained = json.loads(text)
    assert (explained["name"], explained["state"]) == ("gpt-7b", "Running")
    assert explained["sentences"] == ["gpt-7b runs.", "<b>It</b> is no markup."]


async def test_a_fault_of_an_explanation_is_an_answer_with_the_strict_headers() -> None:
    async def fails(_: Key) -> Explanation:
        raise KeyError("a queue that is gone")

    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        served(visitor(Feed(), fails)) as address,
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"{address.partition('#')[0]}api/explain/research/gpt-7b") as response,
    ):
        assert response.status == 500
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        text = await response.text()
    assert text == "this cannot be answered (KeyError: 'a queue that is gone')\n"


@pytest.mark.parametrize("after", ["", "x", "-1", "1.5", "²", "1" * 5000])
async def test_a_version_that_is_none_is_refused(reader: Reader, after: str) -> None:
    status, text = await reader.get(f"api/changes?after={after}")
    assert (status, text) == (400, "`after` is not a version: it should be a number\n")


async def test_streams_are_bounded_and_their_places_become_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "MAX_STREAMS", 1)
    async with reading(visitor(Feed())) as reader:
        for _ in range(2):
            async with first_stream(reader):
                status, text = await reader.get("api/changes?after=0")
                assert (status, text) == (503, "1 pages are open: close those that nobody reads\n")


@asynccontextmanager
async def reading(shown: Visitor) -> AsyncIterator[Reader]:
    async with served(shown) as address, aiohttp.ClientSession() as session:
        yield Reader(session, address)


async def test_a_person_asks_few_questions_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_QUESTIONS_OF_PERSON", 1)
    under_way, answer = asyncio.Event(), asyncio.Event()

    async def waits(key: Key) -> Explanation:
        under_way.set()
        await answer.wait()
        return Explanation(*key, "Running", ())

    async with reading(visitor(Feed(), waits)) as reader:
        first = asyncio.create_task(reader.get("api/explain/research/gpt-7b"))
        await under_way.wait()
        assert await reader.get("api/explain/research/gpt-7b") == (
            503,
            "1 of your questions are being answered: try again in a moment\n",
        )
        answer.set()
        assert (await first)[0] == 200


@pytest.mark.parametrize("path", ["api/page?", "api/changes?after="])
async def test_who_takes_nothing_is_disconnected_and_holds_no_place_or_memory(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(server_module, "SEND_S", 0.05)
    monkeypatch.setattr(server_module, "MAX_PAGES_OF_PERSON", 1)
    monkeypatch.setattr(server_module, "MAX_STREAMS_OF_PERSON", 1)
    feed = Feed()
    await feed.update(with_trouble(Page(), "x" * LARGE))
    path += str(json.loads(feed.whole())["version"] - 1)
    async with reading(visitor(feed)) as reader, silent(reader, f"/{path}") as incoming:
        await feed.update(Page())
        async with asyncio.timeout(20):
            while await status_of(reader, path) == 503:
                pass
            assert len(await incoming.read()) < LARGE


async def status_of(reader: Reader, path: str) -> int:
    async with reader.session.get(reader.url + path, headers=reader.headers) as response:
        return response.status


@asynccontextmanager
async def silent(reader: Reader, path: str) -> AsyncIterator[asyncio.StreamReader]:
    """A connection that asks, and reads only the first line."""
    host = reader.url.removeprefix("http://").rstrip("/")
    incoming, outgoing = await asyncio.open_connection(*host.split(":"), limit=1 << 12)
    authorization = f"Authorization: {reader.headers['Authorization']}"
    outgoing.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{authorization}\r\n\r\n".encode())
    assert b" 200 " in await incoming.readline()
    try:
        yield incoming
    finally:
        outgoing.transport.abort()


@asynccontextmanager
async def first_stream(reader: Reader) -> AsyncIterator[None]:
    """A stream, once there is a place for it."""
    url = f"{reader.url}api/changes?after=0"
    async with asyncio.timeout(20):
        while True:
            async with reader.session.get(url, headers=reader.headers) as response:
                if response.status == 200:
                    yield
                    return


async def test_its_streams_end_with_it() -> None:
    feed = Feed()
    async with aiohttp.ClientSession() as session:
        async with served(visitor(feed)) as address:
            url = f"{address.partition('#')[0]}api/changes?after=0"
            response = await session.get(url, headers={"Authorization": f"Bearer {TOKEN}"})
        assert (await response.content.read()).startswith(b"id: ")
