"""The page behind a gateway that ends TLS, takes a prefix off, and collects answers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urljoin

import aiohttp
import pytest

from cede.api.objects import ALLOCATIONS
from cede.dashboard import feed
from tests.builders.shared_cluster import allocation
from tests.fakes.api_server import ApiServer
from tests.fakes.people import People
from tests.harness.gateway import FORWARDED, gateway
from tests.unit.cede_cli.dashboard.people.conftest import ENOUGH_S, Site, bearer

pytestmark = pytest.mark.usefixtures("quick")
EVERYWHERE = ("",)
OF_A_BROWSER = {"Origin": "https://cede.example", "Sec-Fetch-Site": "same-origin"}


@asynccontextmanager
async def behind(site: Site, host: str = "") -> AsyncIterator[Site]:
    async with (
        gateway(site.url, host) as (url, connector),
        aiohttp.ClientSession(connector=connector) as session,
    ):
        yield Site(session, url, site.host["Host"])


@pytest.fixture
async def outside(site: Site) -> AsyncIterator[Site]:
    """The page at https://cede.example/cede/, as a browser comes to it."""
    async with behind(site) as outside:
        yield outside


async def test_a_person_signs_in_at_the_prefix(outside: Site, people: People) -> None:
    token = people.add("ada", ("research",))
    await outside.page(token)
    form = await outside.post("sign-in", OF_A_BROWSER, data={"token": "wrong"})
    assert leads(form) == "/cede/sign-in#refused"
    form = await outside.post("sign-in", OF_A_BROWSER, data={"token": token})
    assert leads(form) == "/cede/"
    session = {"Cookie": form.headers["Set-Cookie"].partition(";")[0]}
    status, text = await outside.get("api/me", **session)
    assert (status, json.loads(text)["user"]) == (200, "ada")
    for name in ("", "page.mjs", "page.css"):
        assert (await outside.get(name))[0] == 200


def leads(response: aiohttp.ClientResponse) -> str:
    """The path of the page that a browser opens then."""
    assert response.status == 303
    return urljoin("/cede/sign-in", response.headers["Location"])


async def test_a_change_comes_at_once(outside: Site, people: People, server: ApiServer) -> None:
    """Also if the gateway waits for a full buffer of other answers."""
    token = people.add("ada", EVERYWHERE)
    version = (await outside.page(token))["version"]
    async with asyncio.timeout(ENOUGH_S), stream(outside, token, version) as response:
        assert "no-transform" in response.headers["Cache-Control"]
        server.put(ALLOCATIONS, allocation("new-team"))
        assert b"new-team" in await response.content.readuntil(b"\n\n")


async def test_a_stream_without_changes_is_never_idle(
    outside: Site, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gateways end a connection on which nothing comes, mostly after 60 s."""
    assert feed.KEEP_ALIVE_S <= 60 / 3
    monkeypatch.setattr(feed, "KEEP_ALIVE_S", 0.02)
    token = people.add("ada", EVERYWHERE)
    version = (await outside.page(token))["version"]
    async with asyncio.timeout(ENOUGH_S), stream(outside, token, version) as response:
        signs = [await response.content.readuntil(b"\n\n") for _ in range(3)]
    assert signs == [feed.ALIVE] * 3


def stream(site: Site, token: str, version: int) -> "aiohttp.client._RequestContextManager":
    url = f"{site.url}api/changes?after={version}"
    return site.session.get(url, headers=site.host | bearer(token))


async def test_a_gateway_that_replaces_the_host_is_told_so(site: Site) -> None:
    """Also if it names the host of the client elsewhere: anybody can send such a header."""
    async with behind(site, host="cede-dashboard.cede-system.svc:8443") as outside:
        status, text = await outside.get("sign-in")
    assert (status, text.strip()) == (
        421,
        "the request is for cede-dashboard.cede-system.svc:8443, and this is https://cede.example: "
        "a gateway should leave the header Host as it came, and --address should name that",
    )


async def test_no_header_says_who_somebody_is(site: Site, people: People) -> None:
    await site.page(people.add("ada", EVERYWHERE))
    names = ("X-Forwarded-User", "X-Remote-User", "Impersonate-User", "X-Forwarded-Email")
    claims = dict.fromkeys(names, "ada")
    assert (await site.get("api/me", **FORWARDED, **claims))[0] == 401
