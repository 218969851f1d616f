"""The page for people over a cluster that teams share: all of it behind real HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from kubernetes.aio.client.configuration import Configuration

from cede.api.objects import Json
from cede.dashboard.live import Live
from cede.dashboard.people import reviews as reviews_module
from cede.dashboard.people.access import PeopleAccess
from cede.dashboard.people.as_person import as_person
from cede.dashboard.people.audiences import Audiences
from cede.dashboard.people.reviews import Reviews
from cede.dashboard.people.sessions import Sessions
from cede.dashboard.server import Server
from tests.fakes.api_server import ApiServer
from tests.fakes.people import People
from tests.harness.page_reader import free_ports

ADDRESS = "https://cede.example"
ENOUGH_S = 30.0


class Site:
    """What a browser, or a proxy before the page, does with it."""

    def __init__(self, session: aiohttp.ClientSession, url: str, host: str) -> None:
        self.session = session
        self.url = url
        self.host = {"Host": host}

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        url = self.url + path
        async with self.session.get(url, headers=self.host | headers) as response:
            return response.status, await response.text()

    async def post(
        self, path: str, headers: dict[str, str] | None = None, **options: object
    ) -> aiohttp.ClientResponse:
        return await self.session.post(
            self.url + path,
            headers=self.host | (headers or {}),
            allow_redirects=False,
            **options,  # type: ignore[arg-type]
        )

    async def page(self, token: str) -> Json:
        """The page of whoever has this token, once the server has read the cluster."""
        async with asyncio.timeout(ENOUGH_S):
            while True:
                url, headers = f"{self.url}api/page", self.host | bearer(token)
                async with self.session.get(url, headers=headers) as response:
                    if response.status != 503:
                        assert response.status == 200, await response.text()
                        content: Json = await response.json()
                        return content
                await asyncio.sleep(0.01)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def people(server: ApiServer) -> People:
    people = People()
    server.admission_hook = people
    return people


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked is asked again at once."""
    monkeypatch.setattr(reviews_module, "VALID_S", 0.0)
    monkeypatch.setattr(reviews_module, "STRANGER_S", 0.0)


@pytest.fixture
async def site(server: ApiServer, people: People) -> AsyncIterator[Site]:
    """At a host name of its own, behind something that ends TLS."""
    async with running(server, ADDRESS, 0) as site:
        yield site


@pytest.fixture
async def local_site(server: ApiServer, people: People) -> AsyncIterator[Site]:
    """At a port of this machine, as one that is forwarded."""
    (port,) = free_ports(1)
    async with running(server, f"http://127.0.0.1:{port}", port) as site:
        yield site


@asynccontextmanager
async def running(server: ApiServer, address: str, port: int) -> AsyncIterator[Site]:
    audiences = Audiences("here")
    async with (
        server.client() as client,
        as_person(Configuration(host=server.url)) as persons,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ENOUGH_S)) as session,
    ):
        reviews = Reviews(client, lambda: audiences.team_namespaces)
        sessions = Sessions(time.monotonic)
        access = PeopleAccess(address, reviews, sessions, audiences, persons, "http://127.0.0.1:1")
        runner, used_port = await Server(access).start(port)
        following = asyncio.create_task(Live(client, audiences.update).run())
        try:
            host = address.partition("//")[2]
            yield Site(session, f"http://127.0.0.1:{used_port}/", host)
        finally:
            following.cancel()
            await asyncio.wait([following])
            await runner.cleanup()
