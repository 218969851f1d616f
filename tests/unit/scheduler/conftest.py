"""Fixtures of the scheduler's tests."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.api_server import ApiServer


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as running:
        yield running
