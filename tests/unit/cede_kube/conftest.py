"""An API server in memory and a client of it."""

from collections.abc import AsyncIterator

import pytest

from cede.kube.client import HttpClient
from tests.fakes.api_server import ApiServer


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[HttpClient]:
    async with server.client(manager="tester") as client:
        yield client
