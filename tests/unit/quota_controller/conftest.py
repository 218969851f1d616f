"""A quota_controller beside an API server, with two teams."""

from collections.abc import AsyncIterator

import pytest

from tests.harness.quota_controller import World, filled


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with filled() as world:
        yield world
