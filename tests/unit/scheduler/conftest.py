"""Fixtures of the scheduler's tests."""

import time
from collections.abc import AsyncIterator

import pytest

from scheduler.apply import Applier
from scheduler.runtime_client import RuntimeClient
from tests.fakes.api_server import ApiServer


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as running:
        yield running


@pytest.fixture
async def applier(server: ApiServer) -> AsyncIterator[Applier]:
    async with server.client() as client:
        yield Applier(client, RuntimeClient(tuple, lambda: None), time.time)
