"""The page of `cede dashboard` over a real client, and a reader that reads it as a browser does."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress

import aiohttp

from cede.api.objects import Json, Key
from cede.api.team_days import Day, Statement, TeamDay, TeamDays
from cede.dashboard.__main__ import parse_flags, serve
from cede.dashboard.audience import Audience
from cede.dashboard.feed import Feed
from cede.dashboard.history import Answer
from cede.dashboard.live import Live
from cede.dashboard.own_access import OwnAccess
from cede.dashboard.questions import Question
from cede.dashboard.server import Server
from cede.dashboard.visitor import Explain, Visitor
from cede.kube.client import HttpClient
from cede.prediction import Prediction
from cede.report.explanation import Explanation

TOKEN = "the-token"
NOTHING_RECORDED = (
    "month,recorded_hours,not_recorded_hours,team,instance_type,resource,owned,available,used,"
    "borrowed,lent,idle,taken_back,claimed,gained,lost,unknown_losses\n"
)
STATEMENT = NOTHING_RECORDED + "".join(
    f"2026-11,42.000000,496.000000,{row}\n"
    for row in (
        "research,a100-80g,nvidia.com/gpu,192.000000,192.000000,288.000000,96.000000,0.000000,"
        "0.000000,12.500000,0.000000,96.000000,1.500000,2",
        "vision,a100-80g,nvidia.com/gpu,672.000000,672.000000,488.000000,0.000000,156.000000,"
        "28.000000,0.000000,12.500000,-0.000001,0.000000,0",
        "vision,h100,nvidia.com/gpu,0.000000,0.000000,0.000000,0.000000,0.000000,"
        "0.000000,0.000000,0.000000,0.000000,unknown,1",
    )
)
ENOUGH_S = 20.0


async def explain(key: Key) -> Explanation:
    return Explanation(*key, "Running", (f"{key[1]} runs.", "<b>It</b> is no markup."))


async def predict(question: Question) -> Prediction:
    return Prediction(0, f"{question.question} <b>changes</b> nothing.\n")


async def history() -> Answer:
    """Of two days, with a gap in the second and nothing seen of the third; and of two months."""
    days = (
        Day("2026-11-20", 24.0, 24.0),
        Day("2026-11-21", 18.0, 24.0, ("the ledger did not run",)),
        Day("2026-11-22", 0.0, 10.0, ("the API server was silent",)),
    )
    kind = ("a100-80g", "nvidia.com/gpu")
    teams = (
        TeamDay("2026-11-20", "vision", *kind, 384.0, 288.0, 0.0, 96.0, 0.0),
        TeamDay("2026-11-21", "vision", *kind, 288.0, 200.0, 0.0, 60.0, 28.0),
        TeamDay("2026-11-20", "research", *kind, 192.0, 288.0, 96.0, 0.0, 0.0),
    )
    statements = (Statement("2026-11", STATEMENT), Statement("2026-10", NOTHING_RECORDED))
    return Answer(history=TeamDays(days, teams, statements))


def visitor(feed: Feed, explaining: Explain = explain) -> Visitor:
    """Somebody whose questions get an answer without a cluster."""
    return Visitor(feed, explaining, predict, history)


@asynccontextmanager
async def served(visitor: Visitor) -> AsyncIterator[str]:
    """The address of a page for this visitor."""
    access = OwnAccess(visitor, TOKEN)
    runner, port = await Server(access).start(0)
    try:
        yield access.listens(port)
    finally:
        await runner.cleanup()


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
async def page_of(client: HttpClient) -> AsyncIterator[Reader]:
    """The page of the cluster of this client, once it has read all that it may."""
    audience = Audience("here")
    async with (
        served(visitor(audience.feed)) as address,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ENOUGH_S)) as session,
    ):
        running = asyncio.create_task(Live(client, audience.update).run())
        try:
            reader = Reader(session, address)
            await reader.until("cluster", "cluster", reading=False)
            yield reader
        finally:
            running.cancel()
            await asyncio.wait([running])


@asynccontextmanager
async def page_for_everybody(*words: str) -> AsyncIterator[str]:
    """The address of `python -m cede.dashboard` with these flags, once it has read the cluster."""
    port, health_port = free_ports(2)
    address = f"http://localhost:{port}"
    ports = ("--address", address, "--port", str(port), "--health-port", str(health_port))
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(parse_flags([*ports, *words]), stop))
    try:
        await _until_ready(f"http://localhost:{health_port}/readyz")
        yield address
    finally:
        stop.set()
        await serving


async def _until_ready(url: str) -> None:
    async with asyncio.timeout(ENOUGH_S), aiohttp.ClientSession() as session:
        while True:
            with suppress(aiohttp.ClientConnectorError):
                async with session.get(url) as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.01)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]
