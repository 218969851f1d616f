"""A page over a cluster that teams share: both behind real HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cede.dashboard import live, watches
from tests.builders.shared_cluster import put_small_cluster
from tests.fakes.api_server import ApiServer
from tests.harness.page_reader import Reader, page_of


@asynccontextmanager
async def dashboard(server: ApiServer) -> AsyncIterator[Reader]:
    """The page of this cluster, once it has read all of it."""
    async with server.client() as client, page_of(client) as reader:
        yield reader


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
