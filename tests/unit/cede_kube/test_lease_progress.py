"""The lease of a leader depends on its passes."""

import asyncio

import pytest

from cede.api import names
from cede.api.objects import LEASES, Json, unix
from cede.kube.lease import Stalled
from cede.kube.progress import Progress
from tests.fakes.api_server import ApiServer
from tests.harness.leases import KEY, TIMES, TOLERANCE_S, Work, clock, lead, lease, run_fast, spec

pytestmark = pytest.mark.slow


def test_a_leader_that_finishes_no_pass_gives_the_lease_up() -> None:
    async def test(server: ApiServer) -> None:
        work = Work()
        async with server.client() as client:
            began = clock()
            with pytest.raises(Stalled, match="no pass was finished within 20"):
                await lead(client, KEY, "one", work, progress=Progress(20.0))
            assert 20 <= clock() - began <= 20 + 1.2 * TIMES.retry_s + TOLERANCE_S
            assert work.ended.is_set()
            assert spec(server)["holderIdentity"] == "", "another may lead at once"

    run_fast(test)


def test_the_lease_has_the_time_of_the_last_whole_pass() -> None:
    """A new leader leaves that of the old one until its own first pass ends."""

    async def test(server: ApiServer) -> None:
        progress = Progress(1000.0)
        server.put(LEASES, lease("", 0) | {"metadata": noted("2020-01-01T00:00:00.000000Z")})
        work = Work()
        async with server.client() as client:
            task = asyncio.create_task(lead(client, KEY, "one", work, progress=progress))
            await work.started.wait()
            await asyncio.sleep(5)
            assert last_pass(server) == unix("2020-01-01T00:00:00Z")
            progress.finish_pass()
            await asyncio.sleep(5)
            assert last_pass(server) == pytest.approx(progress.last_pass, abs=1e-3)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert last_pass(server) == pytest.approx(progress.last_pass, abs=1e-3), "released"

    run_fast(test)


def noted(last_pass: str) -> Json:
    return {"name": KEY[1], "namespace": KEY[0], "annotations": {names.LAST_PASS: last_pass}}


def last_pass(server: ApiServer) -> float:
    return unix((server.get(LEASES, KEY) or {})["metadata"]["annotations"][names.LAST_PASS])
