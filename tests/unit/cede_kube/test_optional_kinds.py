"""The cache of a kind that a cluster need not have."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from cede.api.kueue import Job
from cede.api.objects import JOBS
from cede.kube.cache import Cache
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.harness.running_cache import Recorded, RunningCache, job


@asynccontextmanager
async def optional(server: ApiServer, every_s: float = 0.01) -> AsyncIterator[RunningCache]:
    """A cache of Jobs, which looks for them so often, once it has looked."""
    async with server.client() as client:
        changed = asyncio.Event()
        backoff = Recorded(max_s=every_s)
        cache = Cache(client, JOBS, Job, changed=changed.set, backoff=backoff, is_optional=True)
        task = asyncio.create_task(cache.run())
        run = RunningCache(server, cache, backoff, changed)
        await run.until(cache.synced.is_set)
        yield run
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


NOT_INSTALLED = refuses(404, "NotFound")


async def test_of_a_kind_that_is_not_installed_there_are_no_objects_until_it_is() -> None:
    async with ApiServer() as server:
        server.script("GET", JOBS.path(), NOT_INSTALLED)
        async with optional(server) as run:
            assert (run.cache.all(), run.cache.trouble) == ([], None)
            server.put(JOBS, job("new"))
            await run.until(lambda: bool(run.cache.all()))


async def test_a_kind_that_must_have_been_installed_is_read_at_once() -> None:
    async with ApiServer() as server:
        server.script("GET", JOBS.path(), NOT_INSTALLED)
        async with optional(server, every_s=3600) as run:
            server.put(JOBS, job("new"))
            run.cache.look_again()
            await run.until(lambda: bool(run.cache.all()))
            assert run.requests[0] == 2


async def test_objects_that_outlive_their_kind_make_nobody_ask_for_it_all_the_time() -> None:
    async with ApiServer() as server:
        server.script("GET", JOBS.path(), *[NOT_INSTALLED] * 5)
        server.put(JOBS, job("new"))
        async with optional(server, every_s=3600) as run:
            async with asyncio.timeout(10):
                while not run.cache.all():
                    run.cache.look_again()
                    await asyncio.sleep(0)
            assert run.requests[0] == 6
            # the first is believed at once
            assert len(run.backoff.delays) == 4
            assert run.backoff.delays == sorted(run.backoff.delays)


async def test_of_a_kind_that_somebody_removes_there_are_no_objects_any_more() -> None:
    is_removed = asyncio.Event()

    async def list_until_then(request: web.Request) -> web.StreamResponse:
        await is_removed.wait()
        return await NOT_INSTALLED(request)

    async with ApiServer() as server:
        server.put(JOBS, job("old"))
        server.script("WATCH", JOBS.path(), NOT_INSTALLED)
        async with optional(server) as run:
            assert run.cache.all()
            server.script("GET", JOBS.path(), list_until_then)
            is_removed.set()
            await run.until(lambda: not run.cache.all())
