"""The page follows the cluster."""

import asyncio
import time

import pytest

from cede.api.objects import CESSIONS, JOBS
from cede.dashboard import live
from tests.builders.shared_cluster import job
from tests.builders.take_backs import cession
from tests.fakes.api_server import ApiServer
from tests.harness.page_reader import Reader
from tests.unit.cede_cli.dashboard.conftest import dashboard


async def test_a_job_that_shrinks_is_shown_with_its_reason(
    server: ApiServer, reader: Reader
) -> None:
    await reader.until("jobs", "speech/tts/Job", size=6)
    server.put(JOBS, job("speech", "tts", 2, desired=6, sizes="2-8")[0])
    server.put(CESSIONS, cession("new", "robotics/policy-net", ("speech/tts", 6, 2)))
    row = await reader.until("jobs", "speech/tts/Job", size=2)
    row = await reader.until("jobs", "speech/tts/Job", step=4120)
    assert row["why"].startswith("It ceded 6 → 2 pods for robotics/policy-net (ReclaimOwnQuota)")


async def test_what_is_deleted_is_gone(server: ApiServer, reader: Reader) -> None:
    version = (await reader.page())["version"]
    server.remove(CESSIONS, ("", "vision-detector-77hqz"))
    async for _, _, data in reader.changes(version):
        if "takes" in data:
            assert data == {"takes": {"set": {}, "gone": ["vision-detector-77hqz"]}}
            break


async def test_many_changes_within_an_interval_are_one_update(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with dashboard(server) as reader:
        monkeypatch.setattr(live, "INTERVAL_S", 1.0)
        version = (await reader.page())["version"]
        began = time.monotonic()
        for size in range(1, 200):
            server.put(JOBS, job("speech", "tts", size, sizes="1-200")[0])
            # so that the watch sends each change by itself
            await asyncio.sleep(0)
        row = await reader.until("jobs", "speech/tts/Job", size=199)
        passed_s = time.monotonic() - began
        assert row["desired"] == 199
        assert (await reader.page())["version"] - version <= passed_s + 2
