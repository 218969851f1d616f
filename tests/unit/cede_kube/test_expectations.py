"""Our own writes are distinguished from other changes."""

import asyncio

from cede.api.kueue import Job
from cede.api.objects import JOBS, Json
from cede.kube.cache import Backoff, Cache
from cede.kube.expectations import WHOLE_KIND, Expectations
from tests.fakes.api_server import ApiServer

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


def test_a_deletion_and_a_new_list_are_news() -> None:
    expectations = Expectations()
    expectations.record_write(KEY, "5")
    expectations.observe_deletion(KEY)
    assert not expectations.only_own_writes
    expectations.clear_observed()
    assert expectations.only_own_writes
    assert expectations.observe(WHOLE_KIND, "9")
    assert not expectations.only_own_writes


def job(name: str) -> Json:
    return {"metadata": {"name": name, "namespace": "a"}, "spec": {"parallelism": 1}}


async def test_a_cache_does_not_report_our_own_write_and_reports_all_others() -> None:
    async with ApiServer() as server, server.client() as client:
        stored = server.put(JOBS, job("j"))
        changed = asyncio.Event()
        expectations = Expectations()
        cache = Cache(
            client,
            JOBS,
            Job,
            changed=changed.set,
            backoff=Backoff(initial_s=0.0),
            expectations=expectations,
        )
        task = asyncio.create_task(cache.run())
        await changed.wait()
        changed.clear()
        expectations.clear_observed()
        version = str(server.version + 1)
        expectations.record_write(KEY, version)
        server.put(JOBS, stored | {"spec": {"parallelism": 7}})
        async with asyncio.timeout(5):
            # nothing reports the change: that is what is tested
            while cache.objects[KEY].metadata.resourceVersion != version:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert not changed.is_set()
        assert expectations.only_own_writes
        server.put(JOBS, stored | {"spec": {"parallelism": 8}})
        await asyncio.wait_for(changed.wait(), 5)
        assert not expectations.only_own_writes
        expectations.record_write(KEY, cache.objects[KEY].metadata.resourceVersion)
        assert expectations.only_own_writes, "it was observed before it was answered"
        changed.clear()
        server.remove(JOBS, KEY)
        await asyncio.wait_for(changed.wait(), 5)
        assert not expectations.only_own_writes
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_cache_does_not_report_a_version_that_is_the_same() -> None:
    async with ApiServer() as server, server.client() as client:
        stored = server.put(JOBS, job("j"))
        changed = asyncio.Event()
        expectations = Expectations()
        cache = Cache(
            client,
            JOBS,
            Job,
            changed=changed.set,
            expectations=expectations,
            is_same=lambda before, after: before.spec == after.spec,
        )
        task = asyncio.create_task(cache.run())
        await changed.wait()
        changed.clear()
        expectations.clear_observed()
        server.put(JOBS, stored | {"status": {"active": 1}})
        async with asyncio.timeout(5):
            # nothing reports the change: that is what is tested
            while cache.objects[KEY].status.active != 1:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert not changed.is_set()
        assert expectations.only_own_writes
        server.put(JOBS, stored | {"spec": {"parallelism": 8}})
        await asyncio.wait_for(changed.wait(), 5)
        assert not expectations.only_own_writes
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
