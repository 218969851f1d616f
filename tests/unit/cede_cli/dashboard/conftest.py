"""A page over a cluster that teams share: both behind real HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from cede.api.objects import Json, Key
from cede.commands.connection import failure_sentence
from cede.dashboard import live, watches
from cede.dashboard.feed import Feed
from cede.dashboard.live import Live
from cede.dashboard.server import Server
from cede.report.explanation import Explanation
from tests.builders.shared_cluster import put_small_cluster
from tests.fakes.api_server import ApiServer

TOKEN = "the-token"
ENOUGH_S = 20.0


async def explain(key: Key) -> Explanation:
    return Explanation(*key, "Running", (f"{key[1]} runs.", "<b>It</b> is no markup."))


class Reader:
    """Reads the page as a browser does."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self.session = session
        self.address = address
        self.url, _, token = address.partition("#token=")
        self.headers = {"Authorization": f"Bearer {token}"}

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        url = self.url + path
        async with self.session.get(url, headers=self.headers | headers) as response:
            return response.status, await response.text()

    async def page(self) -> Json:
        status, text = await self.get("api/page")
        assert status == 200, text
        content: Json = json.loads(text)
        return content

    async def changes(self, after: int) -> AsyncIterator[tuple[str, int, Json]]:
        """(event, version, data) of each event; comments are left out."""
        url = f"{self.url}api/changes?after={after}"
        async with self.session.get(url, headers=self.headers) as response:
            assert response.content_type == "text/event-stream", await response.text()
            while line := await response.content.readuntil(b"\n\n"):
                if line.startswith(b":"):
                    continue
                fields = dict(part.split(": ", 1) for part in line.decode().strip().split("\n"))
                yield fields["event"], int(fields["id"]), json.loads(fields["data"])

    async def until(self, section: str, key: str, **values: object) -> Json:
        """The row, once it has these values."""
        async with asyncio.timeout(ENOUGH_S):
            page = await self.page()
            if _has(page[section].get(key), values):
                return dict(page[section][key])
            async for _, _, data in self.changes(page["version"]):
                row = data.get(section, {}).get("set", {}).get(key)
                if _has(row, values):
                    return dict(row)
        raise AssertionError


def _has(row: Json | None, values: dict[str, object]) -> bool:
    return row is not None and all(row[name] == value for name, value in values.items())


@asynccontextmanager
async def dashboard(server: ApiServer) -> AsyncIterator[Reader]:
    """The page of this cluster, once it has read all of it."""
    feed = Feed()
    runner, address = await Server(feed, explain, TOKEN).start(0)
    timeout = aiohttp.ClientTimeout(total=ENOUGH_S)
    async with server.client() as client, aiohttp.ClientSession(timeout=timeout) as session:
        running = asyncio.create_task(Live(client, feed, failure_sentence, "here").run())
        try:
            reader = Reader(session, address)
            await reader.until("cluster", "cluster", reading=False)
            yield reader
        finally:
            running.cancel()
            await asyncio.wait([running])
            await runner.cleanup()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page looks at once for what it otherwise looks for after seconds."""
    monkeypatch.setattr(live, "INTERVAL_S", 0.01)
    monkeypatch.setattr(watches, "PULSE_S", 0.05)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        put_small_cluster(server)
        yield server


@pytest.fixture
async def reader(server: ApiServer) -> AsyncIterator[Reader]:
    async with dashboard(server) as reader:
        yield reader
