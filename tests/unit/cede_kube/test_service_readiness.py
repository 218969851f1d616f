"""A leader without progress is not ready."""

import asyncio
from dataclasses import replace

from cede.api.objects import JOBS
from cede.kube.cache import Cache
from cede.kube.lease import Times
from tests.fakes.api_server import ApiServer
from tests.harness.local_job import free_port
from tests.unit.cede_kube.test_service import LEADERSHIP, Recording, readiness, replica


async def test_a_leader_that_finishes_no_pass_is_not_ready() -> None:
    """A rollout of it does not count as good, also before it gives the lease up."""
    leadership = replace(LEADERSHIP, stalled_after_s=0.1, times=Times(retry_s=5.0))
    async with ApiServer() as server, server.client() as client:
        controller = Recording(Cache(client, JOBS, dict), pass_s=float("inf"))
        port = free_port()
        async with replica(server, controller, client, port, leadership) as running:
            await controller.reconciled.wait()
            # nothing reports that time has passed
            while not running.done() and await readiness(port) == 200:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert not running.done()
            assert await readiness(port) == 503
