"""Fixtures of the scheduler's tests."""

from collections.abc import AsyncIterator

import pytest

from scheduler.cession import reservation
from tests.fakes.api_server import ApiServer


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as running:
        yield running


@pytest.fixture
def kueue_wakes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The double looks at all Workloads in each pass, so nothing has to wait for its batch."""
    monkeypatch.setattr(reservation, "WAKE_S", 0.0)
