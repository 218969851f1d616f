"""What an operator of the page sees in its metrics, over real HTTP."""

import asyncio
import time

import aiohttp
import pytest
from prometheus_client import REGISTRY

from cede.api.objects import Key
from cede.dashboard import metrics
from cede.dashboard import server as server_module
from cede.dashboard.feed import Feed
from cede.dashboard.metrics import Limit, Outcome
from cede.report.explanation import Explanation
from tests.harness.page_reader import TOKEN, Reader, served, visitor

ENOUGH_S = 20.0
CHANGES = "/api/changes"
EXPLAIN = "/api/explain/{namespace}/{name}"


def ended(path: str, outcome: Outcome) -> float:
    labels = {"path": path, "outcome": str(outcome)}
    return REGISTRY.get_sample_value("cede_dashboard_requests_total", labels) or 0.0


def refused(limit: Limit) -> float:
    labels = {"limit": str(limit)}
    return REGISTRY.get_sample_value("cede_dashboard_too_many_total", labels) or 0.0


async def until_streams(reader: Reader, count: int) -> None:
    async with asyncio.timeout(ENOUGH_S):
        while REGISTRY.get_sample_value("cede_dashboard_open_streams") != count:
            await reader.get("api/me")


async def fails(_: Key) -> Explanation:
    raise KeyError("a queue that is gone")


@pytest.mark.parametrize(
    ("asked", "token", "path", "outcome"),
    [
        ("api/page", TOKEN, "/api/page", Outcome.ANSWERED),
        ("page.css", "", "/{name}", Outcome.ANSWERED),
        ("api/page", "another", "/api/page", Outcome.UNAUTHORIZED),
        ("api/changes?after=x", TOKEN, CHANGES, Outcome.REFUSED),
        ("api/explain/a/b", TOKEN, EXPLAIN, Outcome.FAILED),
        ("api/explain/c/d", TOKEN, EXPLAIN, Outcome.FAILED),
        ("whatever/somebody/asks", TOKEN, metrics.OTHER, Outcome.REFUSED),
    ],
)
async def test_a_request_counts_by_the_path_of_its_route_and_by_its_outcome(
    asked: str, token: str, path: str, outcome: Outcome
) -> None:
    before = ended(path, outcome)
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        served(visitor(Feed(), fails)) as address,
        aiohttp.ClientSession(headers=headers) as session,
        session.get(address.partition("#")[0] + asked) as response,
    ):
        await response.read()
    assert ended(path, outcome) == before + 1


async def test_an_open_page_counts_while_it_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_STREAMS", 1)
    left, too_many = ended(CHANGES, Outcome.LEFT), refused(Limit.STREAMS)
    unavailable = ended(CHANGES, Outcome.UNAVAILABLE)
    async with served(visitor(Feed())) as address, aiohttp.ClientSession() as session:
        reader = Reader(session, address)
        url = f"{reader.url}api/changes?after=0"
        async with session.get(url, headers=reader.headers) as response:
            assert response.status == 200
            await until_streams(reader, 1)
            assert (await reader.get("api/changes?after=0"))[0] == 503
            assert refused(Limit.STREAMS) == too_many + 1
            assert ended(CHANGES, Outcome.UNAVAILABLE) == unavailable + 1
        await until_streams(reader, 0)
        assert ended(CHANGES, Outcome.LEFT) == left + 1


async def test_the_picture_is_as_old_as_its_oldest_part(reader: Reader) -> None:
    """All copies were read a moment ago."""
    async with asyncio.timeout(ENOUGH_S):
        while not 0 <= time.time() - confirmed() < ENOUGH_S:
            await reader.page()


def confirmed() -> float:
    return REGISTRY.get_sample_value("cede_dashboard_confirmed_timestamp_seconds") or 0.0


def test_a_picture_that_the_server_never_confirmed_has_no_time() -> None:
    metrics.note_picture(1000.0, 10.0)
    metrics.note_picture(2000.0, float("inf"))
    assert confirmed() == 990.0
