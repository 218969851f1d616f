"""What makes passes beside a controller, while it leads, has no part in whether it may lead."""

import asyncio
from dataclasses import replace

import pytest

from cede.api.objects import JOBS, LEASES, SECRETS
from cede.kube.backoff import Backoff
from cede.kube.cache import Cache
from cede.kube.lease import Stalled, Times
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.harness.fast_loop import fast
from tests.harness.local_job import free_port
from tests.unit.cede_kube.test_service import (
    KEY,
    LEADERSHIP,
    Recording,
    holder,
    readiness,
    replica,
    requested,
    take_lease,
)


async def test_what_is_beside_it_makes_passes_while_it_leads_once_its_own_caches_are_synced() -> (
    None
):
    async with ApiServer() as server, server.client() as client:
        take_lease(server)
        server.script("GET", SECRETS.path(), refuses(404, "NotFound"))
        controller = Recording(Cache(client, JOBS, dict))
        other = Recording(Cache(client, SECRETS, dict, backoff=Backoff(0.05, 0.05)))
        leadership = replace(LEADERSHIP, times=Times(retry_s=0.02))
        async with replica(server, controller, client, leadership=leadership, beside=[other]):
            await asyncio.wait_for(other.caches[0].synced.wait(), 10)
            await requested(server, "GET", LEASES.path(KEY), 3)
            assert other.synced == [], "a standby makes no pass"
            server.remove(LEASES, KEY)
            await asyncio.wait_for(other.reconciled.wait(), 10)
            assert holder(server) == "pod-1"
    assert other.synced == [True]


async def test_it_leads_while_what_is_beside_it_cannot_read() -> None:
    async with ApiServer() as server, server.client() as client:
        server.script("GET", SECRETS.path(), *[refuses(403, "Forbidden")] * 9)
        controller = Recording(Cache(client, JOBS, dict))
        other = Recording(Cache(client, SECRETS, dict))
        port = free_port()
        async with replica(server, controller, client, port, beside=[other]):
            await asyncio.wait_for(controller.reconciled.wait(), 10)
            assert await readiness(port) == 200
    assert other.synced == []


def test_passes_of_what_is_beside_it_are_no_progress() -> None:
    """A leader whose own passes never end gives up, whatever is beside it."""

    async def test() -> None:
        async with ApiServer() as server, server.client() as client:
            controller = Recording(Cache(client, JOBS, dict), pass_s=float("inf"))
            other = Recording(Cache(client, SECRETS, dict), again_after_s=10.0)
            async with replica(server, controller, client, beside=[other]) as running:
                with pytest.raises(ExceptionGroup) as raised:
                    await running
                assert raised.group_contains(Stalled)
            assert len(other.synced) >= 5, "it made passes all the time"

    fast(test())
