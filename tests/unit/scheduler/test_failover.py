"""Replicas of the scheduler: the first pass of a leader, its end, and who comes after it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from cede.api import names
from cede.api.objects import LEASES, POLICIES, SECRETS, Json
from cede.kube import service
from cede.kube.cache import Cache
from cede.kube.client import HttpClient
from cede.kube.errors import NotFound, Unreachable
from scheduler.__main__ import run
from scheduler.apply import ACTIONS
from scheduler.controller import Controller
from scheduler.leader_clock import MAX_GAP_S, LeaderClock
from scheduler.metrics import ADMITTED
from scheduler.root_key import ROOT_SECRET
from scheduler.snapshot.kinds import KINDS
from tests.fakes.api_server import ApiServer
from tests.fakes.runtime import Runtime, loopback_address
from tests.harness.scheduler import TwoTeams

ADDRESS = loopback_address(1)
LEASE = (names.SYSTEM_NAMESPACE, names.SCHEDULER_LEASE)
FAILOVER_GOAL_S = 5.0
# how late a busy machine may be
TOLERANCE_S = 3.0


def lease(server: ApiServer) -> Json:
    return server.get(LEASES, LEASE) or {"metadata": {}, "spec": {}}


def holder_after_a_pass(server: ApiServer, last_pass: str) -> str:
    """Who holds the lease, if a pass has ended after `last_pass`."""
    annotations = lease(server)["metadata"].get("annotations", {})
    has_passed = annotations.get(names.LAST_PASS, "") > last_pass
    return str(lease(server)["spec"].get("holderIdentity", "")) if has_passed else ""


async def start(server: ApiServer, stack: AsyncExitStack, identity: str) -> HttpClient:
    """A replica that runs until the stack is closed; its client, to kill it by."""
    client = await stack.enter_async_context(server.client("cede-scheduler"))
    flags = service.Flags(identity, None, 0, "INFO")
    task = asyncio.create_task(run(client, flags))

    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(stop)
    return client


@pytest.mark.slow
async def test_a_standby_leads_soon_after_the_leader_has_died(server: ApiServer) -> None:
    teams = TwoTeams(server)
    async with AsyncExitStack() as stack:
        first = await start(server, stack, "one")
        await teams.until(lambda: holder_after_a_pass(server, "") == "one", "the first leader")
        await start(server, stack, "two")
        path = LEASES.path(LEASE)
        reads = server.requests.count(("GET", path))
        await teams.until(lambda: server.requests.count(("GET", path)) > reads, "the standby")
        last_pass = lease(server)["metadata"]["annotations"][names.LAST_PASS]
        # a process that is gone releases nothing
        await first._session.close()
        died = time.monotonic()
        await teams.until(lambda: holder_after_a_pass(server, last_pass) == "two", "the next one")
    assert time.monotonic() - died <= FAILOVER_GOAL_S + TOLERANCE_S


# --- a controller whose caches run ----------------------------------------------------------------
@asynccontextmanager
async def controlling(server: ApiServer) -> AsyncIterator[Controller]:
    async with server.client("cede-scheduler") as client:
        controller = Controller(client, asyncio.Event(), LeaderClock())
        async with controller.runtimes:
            tasks = [asyncio.create_task(cache.run()) for cache in controller.caches]
            for cache in controller.caches:
                await cache.synced.wait()
            yield controller
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_first_pass_knows_every_runtime_that_answers(server: ApiServer) -> None:
    """It asks the runtime for its size, which it can only do with its status."""
    teams = TwoTeams(server)
    uid = teams.job("research", "gpt", 8, "2-8", ADDRESS)
    requests = ACTIONS.labels("RequestSize", "queued")._value
    before = requests.get()
    async with Runtime(ADDRESS, "research", uid, 8), controlling(server) as controller:
        await controller.reconcile()
    assert requests.get() == before + 1


async def test_a_replica_that_lost_the_lead_shows_no_queues(server: ApiServer) -> None:
    """A sum over replicas would count their Workloads twice."""
    teams = TwoTeams(server)
    teams.job("vision", "inference", 4)

    def shown() -> set[str]:
        [family] = ADMITTED.collect()
        return {sample.labels["queue"] for sample in family.samples}

    async with controlling(server) as controller:
        await controller.reconcile()
        assert "vision" in shown()
        listening = asyncio.create_task(controller.listen())
        controller._clock._last_pass -= MAX_GAP_S + 1
        await teams.until(lambda: not shown(), "no queue is shown")
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def test_without_a_root_key_no_pass_is_whole(server: ApiServer) -> None:
    """No job could be asked, so all would be stopped: the watchdog lets Kueue preempt instead."""
    TwoTeams(server)
    server.remove(SECRETS, ROOT_SECRET)
    async with controlling(server) as controller:
        with pytest.raises(NotFound):
            await controller.reconcile()


async def test_nothing_is_decided_on_a_copy_that_is_too_old(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    teams = TwoTeams(server)
    teams.job("research", "rigid", 8)
    teams.job("vision", "inference", 4)
    async with controlling(server) as controller:
        monkeypatch.setattr(Cache, "age_s", 300.0)
        with pytest.raises(Unreachable, match="has sent nothing about"):
            await controller.reconcile()
    assert server.writes() == []


async def test_an_unreadable_object_of_any_kind_delays_no_pass(server: ApiServer) -> None:
    teams = TwoTeams(server)
    teams.job("research", "rigid", 8)
    teams.job("vision", "inference", 4)
    kinds = [kind for kind, _ in KINDS.values()]
    for kind in (*kinds, POLICIES):
        labels = {names.SERVER: names.WHOLE}
        metadata: Json = {"name": "odd", "labels": labels}
        metadata |= {"namespace": "research"} if kind.namespaced else {}
        server.put(kind, {"metadata": metadata, "spec": "not a spec"})
    async with controlling(server) as controller:
        assert all(cache.unreadable for cache in controller.needed_caches)
        await controller.reconcile()
    assert ("POST", "/apis/cede.dev/v1alpha1/cessions") in server.writes()


async def test_without_a_policy_nothing_is_preempted(server: ApiServer) -> None:
    teams = TwoTeams(server)
    server.remove(POLICIES, ("", names.POLICY_NAME))
    teams.job("research", "rigid", 8)
    teams.job("vision", "inference", 4)
    async with controlling(server) as controller:
        await controller.reconcile()
    assert server.writes() == []
