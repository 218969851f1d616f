"""Objects that cannot be read, a watch that is mute, a fault of ours: each costs only itself."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest
from aiohttp import web

from cede.api.kueue import Job
from cede.api.objects import ALLOCATIONS, CESSIONS, JOBS, Json, Kind, Projection
from cede.kube.cache import UNREADABLE, Cache
from cede.kube.client import MUTE_S, Client
from ledger.controller import Controller as LedgerController
from ledger.database import Database
from quota_controller.controller import Controller as QuotaController
from scheduler.controller import Controller as SchedulerController
from scheduler.leader_clock import LeaderClock
from tests.builders.quotas import allocation
from tests.builders.scheduler import cession
from tests.fakes.api_faults import sends
from tests.fakes.api_server import ApiServer
from tests.harness.fast_loop import fast
from tests.harness.running_cache import Recorded, job, running
from webhook.__main__ import TeamCache


def odd(name: str) -> Json:
    return {"metadata": {"name": name, "namespace": "a"}, "spec": "not a spec"}


def unreadable_jobs() -> float:
    return float(UNREADABLE.labels("jobs")._value.get())


async def test_an_unreadable_object_in_a_list_affects_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with ApiServer() as server, server.client() as client:
        server.put(JOBS, odd("odd"))
        server.put(JOBS, job("old"))
        cache = Cache(client, JOBS, Job)
        task = asyncio.create_task(cache.run())
        await asyncio.wait_for(cache.synced.wait(), 10)
        assert [item.metadata.name for item in cache.all()] == ["old"]
        assert list(cache.unreadable) == [("a", "odd")]
        assert unreadable_jobs() == 1
        assert ["a/odd" in vars(record)["reason"] for record in caplog.records] == [True]
        task.cancel()


async def test_an_unreadable_object_of_a_watch_is_kept_as_it_was_until_it_can_be_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as run:
        await run.until(lambda: run.cache.synced.is_set())
        run.server.put(JOBS, odd("old"))
        run.server.put(JOBS, odd("old"))
        run.server.put(JOBS, job("new"))
        await run.until(lambda: run.cache.get(("a", "new")) is not None)
        kept = run.cache.get(("a", "old"))
        assert kept is not None
        assert kept.spec.parallelism == 1
        assert len(caplog.records) == 1, "it is logged once"
        run.server.put(JOBS, job("old", 3))
        await run.until(lambda: not run.cache.unreadable)
        assert unreadable_jobs() == 0
        assert run.requests == (1, 1), "the watch went on"


def cached_kinds() -> list[Any]:
    """What the controllers keep copies of. A dict can always be read."""
    client = cast(Client, None)
    wake = asyncio.Event()
    webhook = TeamCache(client, "")
    caches = [
        *SchedulerController(client, wake, LeaderClock()).caches,
        *QuotaController(client, wake, time.time).caches,
        *LedgerController(client, wake, time.time, cast(Database, None)).caches,
        *(webhook.policies, webhook.allocations, webhook.queues),
    ]
    read = {(cache.kind, cache._cls) for cache in caches if cache._cls is not dict}
    return [
        pytest.param(kind, cls, id=f"{kind.plural} as {cls.__name__}")
        for kind, cls in sorted(read, key=lambda pair: pair[0].plural)
    ]


SPECS = {
    CESSIONS: cession().spec.model_dump(mode="json"),
    ALLOCATIONS: allocation().spec.model_dump(mode="json"),
}


@pytest.mark.parametrize(("kind", "cls"), cached_kinds())
async def test_an_unreadable_object_of_any_cached_kind_is_kept_named_and_affects_no_other(
    kind: Kind, cls: type[Projection]
) -> None:
    namespace = "a" if kind.namespaced else ""

    def put(name: str, **metadata: object) -> None:
        metadata |= {"name": name} | ({"namespace": namespace} if namespace else {})
        server.put(kind, {"metadata": metadata, "spec": SPECS.get(kind, {})})

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                changed.clear()
                await changed.wait()

    changed = asyncio.Event()
    old, never, new = ((namespace, name) for name in ("old", "never", "new"))
    async with ApiServer() as server, server.client() as client:
        put("old")
        put("never", ownerReferences="none")
        cache = Cache(client, kind, cls, changed=changed.set)
        task = asyncio.create_task(cache.run())
        await until(cache.synced.is_set)
        before = cache.get(old)
        assert set(cache.objects) == {old}
        put("old", ownerReferences="none")
        put("new")
        await until(lambda: new in cache.objects)
        assert cache.get(old) is before
        assert set(cache.unreadable) == {old, never}
        for key, reason in cache.unreadable.items():
            assert reason.startswith(f"{kind.kind} {'/'.join(filter(None, key))}: ")
        assert UNREADABLE.labels(kind.plural)._value.get() == 2
        server.remove(kind, old)
        put("never")
        await until(lambda: set(cache.objects) == {never, new})
        assert not cache.unreadable
        task.cancel()


async def test_an_unreadable_object_is_kept_through_a_new_list() -> None:
    server: ApiServer

    async def gap(request: web.Request) -> web.StreamResponse:
        server.put(JOBS, odd("old"))
        server.put(JOBS, job("new"))
        server.compact()
        return await sends()(request)

    async with running(gap) as run:
        server = run.server
        await run.until(lambda: run.cache.get(("a", "new")) is not None)
        assert run.requests[0] == 2
        assert run.cache.get(("a", "old")) is not None
        assert list(run.cache.unreadable) == [("a", "old")]


async def test_an_unreadable_object_that_is_deleted_is_removed() -> None:
    async with running() as run:
        await run.until(lambda: run.cache.synced.is_set())
        run.server.put(JOBS, odd("old"))
        await run.until(lambda: bool(run.cache.unreadable))
        run.server.remove(JOBS, ("a", "old"))
        await run.until(lambda: not run.cache.objects)
        assert not run.cache.unreadable


async def test_a_list_that_is_no_list_is_retried() -> None:
    async with ApiServer() as server, server.client() as client:
        server.script("GET", JOBS.path(), sends(b"<html>"))
        cache = Cache(client, JOBS, Job, backoff=Recorded())
        task = asyncio.create_task(cache.run())
        await asyncio.wait_for(cache.synced.wait(), 10)
        assert server.count()["GET"] == 2
        task.cancel()


async def test_a_fault_of_ours_costs_a_new_list_and_not_the_cache() -> None:
    faults = [KeyError("a fault of ours")]

    def changed() -> None:
        if faults:
            raise faults.pop()

    async with ApiServer() as server, server.client() as client:
        cache = Cache(client, JOBS, Job, changed=changed, backoff=Recorded())
        task = asyncio.create_task(cache.run())
        while server.count()["WATCH"] < 1:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert server.count()["GET"] == 2
        task.cancel()


def test_a_mute_watch_is_replaced_by_a_list() -> None:
    async def test() -> None:
        async with ApiServer() as server, server.client() as client:
            server.script("WATCH", JOBS.path(), mute)
            cache = Cache(client, JOBS, Job, backoff=Recorded())
            task = asyncio.create_task(cache.run())
            await cache.synced.wait()
            server.put(JOBS, job("new"))
            while not cache.objects:  # noqa: ASYNC110
                await asyncio.sleep(1)
            assert server.count()["GET"] == 2
            assert cache.age_s < MUTE_S
            task.cancel()

    fast(test())


async def mute(request: web.Request) -> web.StreamResponse:
    """A watch that is open and sends nothing."""
    response = web.StreamResponse()
    await response.prepare(request)
    await asyncio.Event().wait()
    return response
