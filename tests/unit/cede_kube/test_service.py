"""The process of a controller: its flags, and its loop over synced caches."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from cede.api import names
from cede.api.kueue import Job
from cede.api.objects import JOBS, LEASES, Json
from cede.kube import service
from cede.kube.backoff import Backoff
from cede.kube.cache import Cache
from cede.kube.client import Client
from cede.kube.lease import Stalled, Times
from tests.fakes.api_faults import hangs, refuses
from tests.fakes.api_server import ApiServer
from tests.harness.fast_loop import fast
from tests.harness.local_job import free_port


def flags(*arguments: str) -> service.Flags:
    parser = argparse.ArgumentParser()
    service.add_flags(parser, "pod-1")
    return service.read_flags(parser.parse_args(arguments))


def test_every_flag_has_a_default() -> None:
    assert flags() == service.Flags("pod-1", None, 8080, "INFO")


def test_every_flag_can_be_set() -> None:
    given = flags("--identity", "me", "--kubeconfig", "k", "--port", "0", "--log-level", "DEBUG")
    assert given == service.Flags("me", "k", 0, "DEBUG")


LEADERSHIP = service.Leadership("cede-test", stalled_after_s=60.0, times=Times())
KEY = (names.SYSTEM_NAMESPACE, "cede-test")


class Recording:
    """A controller that records whether its cache was synced at each pass."""

    def __init__(self, cache: Cache[Any], pass_s: float = 0.0, again_after_s: float = 60.0) -> None:
        self.wake = asyncio.Event()
        self.caches = [cache]
        self.needed_caches = [cache]
        self.pass_s = pass_s
        self.again_after_s = again_after_s
        self.synced = list[bool]()
        self.reconciled = asyncio.Event()
        # a pass that is cancelled, and needs a while to end
        self.is_ending = asyncio.Event()

    async def reconcile(self) -> float:
        self.synced.append(self.caches[0].synced.is_set())
        self.reconciled.set()
        try:
            await asyncio.sleep(self.pass_s)
        except asyncio.CancelledError:
            self.is_ending.set()
            await asyncio.sleep(1.0)
            raise
        return self.again_after_s


@asynccontextmanager
async def replica(
    server: ApiServer,
    controller: Recording,
    client: Client,
    port: int = 0,
    leadership: service.Leadership = LEADERSHIP,
    beside: Collection[Recording] = (),
    began: Callable[[], None] = lambda: None,
) -> AsyncIterator[asyncio.Task[None]]:
    running = asyncio.create_task(
        service.run_replica(
            controller,
            client,
            flags("--port", str(port)),
            leadership,
            beside=beside,
            began=began,
        )
    )
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def holder(server: ApiServer) -> str:
    lease = server.get(LEASES, KEY) or {"spec": {}}
    return str(lease["spec"].get("holderIdentity", ""))


def wrote_a_pass(server: ApiServer) -> bool:
    """Whether the lease says that a pass has ended."""
    lease: Json = server.get(LEASES, KEY) or {"metadata": {}}
    return names.LAST_PASS in lease["metadata"].get("annotations", {})


async def readiness(port: int) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/readyz") as response,
    ):
        return response.status


async def test_a_replica_leads_only_with_its_caches_synced() -> None:
    """A kind that cannot be read keeps it from leading, and it is not ready."""
    async with ApiServer() as server, server.client() as client:
        not_found = refuses(404, "NotFound")
        is_checked = asyncio.Event()

        async def refuses_once_checked(request: web.Request) -> web.StreamResponse:
            await is_checked.wait()
            return await not_found(request)

        server.script("GET", JOBS.path(), not_found, not_found, refuses_once_checked)
        controller = Recording(Cache(client, JOBS, dict, backoff=Backoff(0.05, 0.05)))
        port = free_port()
        async with replica(server, controller, client, port):
            while server.count()["GET"] < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert holder(server) == ""
            assert await readiness(port) == 503
            is_checked.set()
            await asyncio.wait_for(controller.reconciled.wait(), 10)
            assert holder(server) == "pod-1"
            assert await readiness(port) == 200
    assert controller.synced == [True]


async def test_the_lease_names_what_the_leader_cannot_read_until_it_can() -> None:
    def note() -> str:
        lease: Json = server.get(LEASES, KEY) or {"metadata": {}}
        return str(lease["metadata"].get("annotations", {}).get(names.UNREADABLE, ""))

    times = Times(retry_s=0.02)
    async with ApiServer() as server, server.client() as client:
        key = ("a", "odd")
        metadata = {"name": key[1], "namespace": key[0]}
        server.put(JOBS, {"metadata": metadata, "spec": "not a spec"})
        controller = Recording(Cache(client, JOBS, Job))
        leadership = replace(LEADERSHIP, times=times)
        async with replica(server, controller, client, leadership=leadership):
            async with asyncio.timeout(10):
                # nothing reports a renewal of the lease
                while not note():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                assert note().startswith("1: Job a/odd: Expected")
                server.put(JOBS, {"metadata": metadata})
                while note():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)


async def test_a_standby_is_ready_and_makes_no_pass() -> None:
    async with ApiServer() as server, server.client() as client:
        take_lease(server)
        controller = Recording(Cache(client, JOBS, dict))
        port = free_port()
        async with replica(server, controller, client, port):
            await requested(server, "GET", LEASES.path(KEY))
            assert await readiness(port) == 200
    assert controller.synced == []


def test_a_pass_that_never_ends_ends_the_process() -> None:
    async def test() -> None:
        async with ApiServer() as server, server.client() as client:
            controller = Recording(Cache(client, JOBS, dict), pass_s=float("inf"))
            async with replica(server, controller, client) as running:
                with pytest.raises(ExceptionGroup) as raised:
                    await running
                assert raised.group_contains(Stalled)
            assert holder(server) == ""

    fast(test())


def test_a_replica_that_loses_the_lease_is_a_standby_again() -> None:
    async def test() -> None:
        async with ApiServer() as server, server.client() as client:
            controller = Recording(Cache(client, JOBS, dict))
            # how many passes there were each time that it began to lead
            began = list[int]()

            def note() -> None:
                began.append(len(controller.synced))

            async with replica(server, controller, client, began=note) as running:
                await controller.reconciled.wait()
                controller.reconciled.clear()
                server.script("PUT", LEASES.path(KEY), *[refuses(500, "InternalError")] * 9)
                await controller.reconciled.wait()
                assert holder(server) == "pod-1"
                assert not running.done()
                assert began == [0, len(controller.synced) - 1], "before the first pass of each"
            assert server.requests.count(("GET", JOBS.path())) == 1, "its caches stayed"

    fast(test())


# --- the end --------------------------------------------------------------------------------------
async def reads_for_the_first_time(server: ApiServer, _: Recording) -> None:
    server.script("GET", JOBS.path(), hangs())
    await requested(server, "GET", JOBS.path())


async def waits_for_an_answer_about_the_lease(server: ApiServer, _: Recording) -> None:
    server.script("GET", LEASES.path(KEY), hangs())
    await requested(server, "GET", LEASES.path(KEY))


async def is_a_standby(server: ApiServer, _: Recording) -> None:
    take_lease(server)
    await requested(server, "GET", LEASES.path(KEY))


async def makes_a_pass(_: ApiServer, controller: Recording) -> None:
    controller.pass_s = float("inf")
    await controller.reconciled.wait()


async def waits_for_the_next_pass(server: ApiServer, _: Recording) -> None:
    while not wrote_a_pass(server):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def cannot_renew_the_lease(server: ApiServer, controller: Recording) -> None:
    server.script("PUT", LEASES.path(KEY), *[hangs()] * 3)
    await controller.reconciled.wait()
    await requested(server, "PUT", LEASES.path(KEY))


async def has_lost_the_lease_and_ends_its_pass(server: ApiServer, controller: Recording) -> None:
    await makes_a_pass(server, controller)
    take_lease(server)
    await controller.is_ending.wait()


async def has_lost_the_lease_and_releases_it(server: ApiServer, controller: Recording) -> None:
    await controller.reconciled.wait()
    server.script("PUT", LEASES.path(KEY), *[refuses(500, "InternalError")] * 9)
    server.script("GET", LEASES.path(KEY), hangs())
    before = server.requests.count(("GET", LEASES.path(KEY)))
    await requested(server, "GET", LEASES.path(KEY), before + 1)


@pytest.mark.parametrize(
    "reach_state",
    [
        reads_for_the_first_time,
        waits_for_an_answer_about_the_lease,
        is_a_standby,
        makes_a_pass,
        waits_for_the_next_pass,
        cannot_renew_the_lease,
        has_lost_the_lease_and_ends_its_pass,
        has_lost_the_lease_and_releases_it,
    ],
)
def test_a_replica_that_is_told_to_end_ends_at_once(
    reach_state: Callable[[ApiServer, Recording], Awaitable[None]],
) -> None:
    """SIGTERM cancels it once. What it does then must not take the cancellation for its own."""

    async def test() -> None:
        async with ApiServer() as server, server.client() as client:
            controller = Recording(Cache(client, JOBS, dict))
            async with replica(server, controller, client) as running:
                await reach_state(server, controller)
                running.cancel()
                await asyncio.wait({running}, timeout=10)
                assert running.cancelled()

    fast(test())


def take_lease(server: ApiServer) -> None:
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
    server.put(LEASES, {"metadata": {"namespace": KEY[0], "name": KEY[1]}, "spec": spec})


async def requested(server: ApiServer, method: str, path: str, times: int = 1) -> None:
    # no event tells of a request
    while server.requests.count((method, path)) < times:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
