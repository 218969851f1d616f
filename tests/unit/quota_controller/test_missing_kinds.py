"""While a kind cannot be read, nothing is changed: who learns of it, and who may do better."""

import argparse
import asyncio
from contextlib import suppress

import pytest
from aiohttp import web

from cede.api import names
from cede.api.objects import CLUSTER_QUEUES, DEPLOYMENTS, LEASES, POLICIES, SECRETS, Json
from cede.kube import service
from cede.kube.cache import REFUSALS_UNTIL_TROUBLE
from cede.kube.lease import Stalled, Times
from cede.kube.loop import Unfinished
from quota_controller.controller import Controller
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import refusal
from tests.harness.fast_loop import fast
from tests.harness.quota_controller import START, World, condition_of, fill, started

LEADERSHIP = service.Leadership("cede-test", stalled_after_s=60.0, times=Times())
LEASE = (names.SYSTEM_NAMESPACE, "cede-test")
POLICY = ("", "default")
STATUS_OF_POLICY = POLICIES.path(POLICY, subresource="status")
OF_THE_SERVER = "500 InternalError: unable to transform key: no matching key was found"


async def absent(_: web.Request) -> web.Response:
    return refusal(404, "NotFound", "the server could not find the requested resource")


async def test_without_kueue_only_the_policy_reports_it_until_kueue_exists() -> None:
    async with ApiServer() as server:
        fill(server)
        server.script("GET", CLUSTER_QUEUES.path(), absent)
        server.script("GET", DEPLOYMENTS.path(namespace="kueue-system"), absent)
        async with started(server, synced=False) as world:
            await passes_until_a_write(world)
            first, *later = server.writes()
            assert first == ("PATCH", STATUS_OF_POLICY)
            assert not [path for _, path in later if "events" not in path]
            [ready] = world.policy_status()["conditions"]
            assert "ClusterQueue cannot be read" in ready["message"]
            world.renew_lease()
            for cache in world.controller.caches:
                await cache.synced.wait()
            await world.settle()
            assert world.ready()["status"] == "True"


async def passes_until_a_write(world: World) -> None:
    while not world.server.writes():
        await asyncio.sleep(0)
        with suppress(Unfinished):
            await world.controller.reconcile()


# --- who leads meanwhile --------------------------------------------------------------------------
def test_a_leader_that_cannot_read_a_kind_says_so_and_leaves_the_lease() -> None:
    """Such as Secrets that cannot be decrypted, or a conversion webhook that is down."""

    async def test() -> None:
        async with ApiServer() as server:
            fill(server)
            fault = refuses(500, "InternalError", OF_THE_SERVER.removeprefix("500 InternalError: "))
            server.script("GET", SECRETS.path(), *[fault] * 99)
            with pytest.raises(ExceptionGroup) as raised:
                await lead(server)
            assert raised.group_contains(Stalled)
            lease: Json = server.get(LEASES, LEASE) or {}
            assert lease["spec"]["holderIdentity"] == "", "another replica may do better"
            policy: Json = server.get(POLICIES, POLICY) or {}
            ready = condition_of(policy["status"], "Ready")
            assert (ready["status"], ready["reason"]) == ("False", "CannotRead")
            assert f"Secret cannot be read ({OF_THE_SERVER})" in ready["message"]

    fast(test())


def test_who_waits_for_kueue_goes_on_leading() -> None:
    """No other replica could do more."""

    async def test() -> None:
        async with ApiServer() as server:
            fill(server)
            server.script("GET", CLUSTER_QUEUES.path(), *[absent] * 99)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2 * LEADERSHIP.stalled_after_s):
                    await lead(server)
            policy: Json = server.get(POLICIES, POLICY) or {}
            assert "install Kueue" in condition_of(policy["status"], "Ready")["message"]

    fast(test())


async def lead(server: ApiServer) -> None:
    parser = argparse.ArgumentParser()
    service.add_flags(parser, "pod-1")
    flags = service.read_flags(parser.parse_args(["--port", "0"]))
    async with server.client(names.QUOTA_CONTROLLER) as client:
        controller = Controller(client, asyncio.Event(), lambda: START)
        await service.run_replica(controller, client, flags, LEADERSHIP)


async def test_a_server_that_starts_is_not_reported() -> None:
    async with ApiServer() as server:
        fill(server)
        starting = refuses(500, "InternalError", "not yet")
        server.script("GET", CLUSTER_QUEUES.path(), *[starting] * (REFUSALS_UNTIL_TROUBLE - 1))
        async with started(server, synced=False) as world:
            cache = world.controller.live[CLUSTER_QUEUES]
            while server.requests.count(("GET", CLUSTER_QUEUES.path())) < 1:  # noqa: ASYNC110
                await asyncio.sleep(0)
            with pytest.raises(Unfinished):
                await world.controller.reconcile()
            assert cache.trouble is None
            assert server.writes() == []
