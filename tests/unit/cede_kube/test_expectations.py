"""Our own writes are distinguished from other changes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from cede.api.kueue import Job
from cede.api.objects import JOBS, Json
from cede.kube.backoff import Backoff
from cede.kube.cache import Cache
from cede.kube.expectations import WHOLE_KIND, Expectations
from tests.fakes.api_server import ApiServer
from tests.harness.running_cache import job

KEY = ("a", "j")


def test_the_result_of_our_own_write_is_no_news() -> None:
    expectations = Expectations()
    expectations.record_write(KEY, "5")
    assert not expectations.observe(KEY, "5")
    assert expectations.only_own_writes


def test_a_later_version_is_news() -> None:
    expectations = Expectations()
    expectations.record_write(KEY, "5")
    assert expectations.observe(KEY, "6")
    assert not expectations.only_own_writes


def test_a_write_may_be_observed_before_it_is_answered() -> None:
    expectations = Expectations()
    assert expectations.observe(KEY, "5")
    expectations.record_write(KEY, "5")
    assert expectations.only_own_writes


def test_a_change_by_somebody_else_is_news_although_we_wrote_the_object_afterwards() -> None:
    expectations = Expectations()
    assert expectations.observe(KEY, "5")
    expectations.record_write(KEY, "6")
    assert not expectations.observe(KEY, "6")
    assert not expectations.only_own_writes


def test_several_writes_of_an_object_are_all_ours() -> None:
    expectations = Expectations()
    assert expectations.observe(KEY, "5")
    for version in ("5", "6"):
        expectations.record_write(KEY, version)
    assert not expectations.observe(KEY, "6")
    assert expectations.only_own_writes


def test_the_last_write_is_ours_in_the_next_period_too() -> None:
    expectations = Expectations()
    for version in ("5", "6"):
        expectations.record_write(KEY, version)
    expectations.clear_observed()
    assert not expectations.observe(KEY, "6")
    assert expectations.observe(KEY, "5"), "the watch is not expected to report older ones"
    assert not expectations.only_own_writes


def test_a_deletion_and_a_new_list_are_news() -> None:
    expectations = Expectations()
    expectations.record_write(KEY, "5")
    expectations.observe_deletion(KEY)
    assert not expectations.only_own_writes
    expectations.clear_observed()
    assert expectations.only_own_writes
    assert expectations.observe(WHOLE_KIND, "9")
    assert not expectations.only_own_writes


@dataclass(frozen=True)
class Observed:
    """A cache that runs, with the job that it has read."""

    server: ApiServer
    cache: Cache[Job]
    expectations: Expectations
    changed: asyncio.Event
    stored: Json

    async def has(self, condition: Callable[[Job], bool]) -> None:
        async with asyncio.timeout(5):
            # nothing reports the change: that is what is tested
            while not condition(self.cache.objects[KEY]):  # noqa: ASYNC110
                await asyncio.sleep(0)


@asynccontextmanager
async def observed(**options: Any) -> AsyncIterator[Observed]:
    async with ApiServer() as server, server.client() as client:
        stored = server.put(JOBS, job("j"))
        changed = asyncio.Event()
        expectations = Expectations()
        cache = Cache(client, JOBS, Job, changed=changed.set, expectations=expectations, **options)
        task = asyncio.create_task(cache.run())
        await changed.wait()
        changed.clear()
        expectations.clear_observed()
        yield Observed(server, cache, expectations, changed, stored)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_cache_does_not_report_our_own_write_and_reports_all_others() -> None:
    async with observed(backoff=Backoff(initial_s=0.0)) as run:
        version = str(run.server.version + 1)
        run.expectations.record_write(KEY, version)
        run.server.put(JOBS, run.stored | {"spec": {"parallelism": 7}})
        await run.has(lambda cached: cached.metadata.resourceVersion == version)
        assert not run.changed.is_set()
        assert run.expectations.only_own_writes
        run.server.put(JOBS, run.stored | {"spec": {"parallelism": 8}})
        await asyncio.wait_for(run.changed.wait(), 5)
        assert not run.expectations.only_own_writes
        run.expectations.record_write(KEY, run.cache.objects[KEY].metadata.resourceVersion)
        assert run.expectations.only_own_writes, "it was observed before it was answered"
        run.changed.clear()
        run.server.remove(JOBS, KEY)
        await asyncio.wait_for(run.changed.wait(), 5)
        assert not run.expectations.only_own_writes


async def test_a_cache_does_not_report_a_version_that_is_the_same() -> None:
    async with observed(is_same=lambda before, after: before.spec == after.spec) as run:
        run.server.put(JOBS, run.stored | {"status": {"active": 1}})
        await run.has(lambda cached: cached.status.active == 1)
        assert not run.changed.is_set()
        assert run.expectations.only_own_writes
        run.server.put(JOBS, run.stored | {"spec": {"parallelism": 8}})
        await asyncio.wait_for(run.changed.wait(), 5)
        assert not run.expectations.only_own_writes
