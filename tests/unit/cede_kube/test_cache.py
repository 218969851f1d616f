"""The reflector against every way a watch endpoint can misbehave: the copy is kept or rebuilt, and
each try waits its turn.

The waits that the real Backoff would make are recorded and not slept, so that a request too many is
counted and not timed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from cede.api.kueue import Job
from cede.api.objects import JOBS, Json
from cede.kube.cache import Backoff, Cache
from cede.kube.expectations import Expectations
from tests.fakes.api_faults import drops, refuses, sends, sends_error_event
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import Answer, watch_line

FAILURES = 6


def job(name: str, parallelism: int = 1) -> Json:
    return {"metadata": {"name": name, "namespace": "a"}, "spec": {"parallelism": parallelism}}


@dataclass(frozen=True)
class Recorded(Backoff):
    """Says what the real one says, into `waits`, and lets nobody wait."""

    waits: list[float] = field(default_factory=list)

    def seconds(self, failures: int) -> float:
        self.waits.append(super().seconds(failures))
        return 0.0


class World:
    def __init__(
        self, server: ApiServer, cache: Cache[Job], backoff: Recorded, told: asyncio.Event
    ) -> None:
        self.server = server
        self.cache = cache
        self.backoff = backoff
        self._told = told

    async def until(self, holds: Callable[[], bool]) -> None:
        """Looks each time the cache says that something changed."""
        async with asyncio.timeout(10):
            while not holds():
                self._told.clear()
                await self._told.wait()

    @property
    def requests(self) -> tuple[int, int]:
        """(lists, watches) so far."""
        return self.server.count()["GET"], self.server.count()["WATCH"]


@asynccontextmanager
async def running(*faults: Answer) -> AsyncIterator[World]:
    """A cache of Jobs beside a server that holds `old`, whose watch answers so first."""
    async with ApiServer() as server, server.client() as client:
        server.put(JOBS, job("old"))
        server.script("WATCH", JOBS.path(), *faults)
        told = asyncio.Event()
        backoff = Recorded()
        cache = Cache(client, JOBS, Job, changed=told.set, backoff=backoff)
        task = asyncio.create_task(cache.run())
        try:
            yield World(server, cache, backoff, told)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


# --- each row of the table of faults --------------------------------------------------------------
@pytest.mark.parametrize(
    ("fault", "lists", "watches"),
    [
        pytest.param(sends(), 1, FAILURES + 1, id="200, then closes at once"),
        pytest.param(
            sends(watch_line("BOOKMARK", {"metadata": {"resourceVersion": "101"}})),
            1,
            FAILURES + 1,
            id="one event, then closes",
        ),
        pytest.param(
            sends_error_event(410, "Expired"), FAILURES + 1, FAILURES + 1, id="410 in the stream"
        ),
        pytest.param(refuses(410, "Expired"), FAILURES + 1, FAILURES + 1, id="HTTP 410"),
        pytest.param(
            sends_error_event(504, "Timeout", "Too large resource version"),
            FAILURES + 1,
            FAILURES + 1,
            id="a version too large",
        ),
        pytest.param(refuses(401, "Unauthorized"), 1, FAILURES + 1, id="HTTP 401"),
        pytest.param(refuses(403, "Forbidden"), 1, FAILURES + 1, id="HTTP 403"),
        pytest.param(refuses(500, "InternalError"), 1, FAILURES + 1, id="HTTP 500"),
        pytest.param(
            sends_error_event(500, "InternalError"), 1, FAILURES + 1, id="500 in the stream"
        ),
        pytest.param(
            drops(watch_line("ADDED", job("x"))[:30]),
            1,
            FAILURES + 1,
            id="connection dropped inside a line",
        ),
        pytest.param(sends(b"<html>\n"), 1, FAILURES + 1, id="what is no event"),
    ],
)
async def test_a_watch_that_fails_is_tried_again_after_ever_longer_waits(
    fault: Answer, lists: int, watches: int
) -> None:
    async with running(*[fault] * FAILURES) as world:
        await world.until(lambda: world.cache.synced.is_set())
        while world.server.count()["WATCH"] != watches:
            assert world.cache.get(("a", "old")), "the copy is kept while the watch is broken"
            await asyncio.sleep(0)
        world.server.put(JOBS, job("new"))
        await world.until(lambda: world.cache.get(("a", "new")) is not None)
        assert world.requests == (lists, watches)
        assert_backed_off(world.backoff.waits, FAILURES)


async def test_a_connection_dropped_before_the_answer_costs_one_more_request_each() -> None:
    # aiohttp itself tries once more, at once
    async with running(*[drops()] * FAILURES) as world:
        await world.until(lambda: world.cache.synced.is_set())
        while world.server.count()["WATCH"] != FAILURES + 1:  # noqa: ASYNC110
            await asyncio.sleep(0)
        world.server.put(JOBS, job("new"))
        await world.until(lambda: world.cache.get(("a", "new")) is not None)
        assert world.requests == (1, FAILURES + 1)
        assert_backed_off(world.backoff.waits, FAILURES // 2)


def assert_backed_off(waits: list[float], failures: int) -> None:
    assert len(waits) == failures
    for turn, wait in enumerate(waits):
        assert 0.5 * min(30, 0.8 * 2**turn) <= wait <= min(30, 0.8 * 2**turn)


@pytest.mark.parametrize("status", [403, 410, 500])
async def test_a_list_that_fails_is_tried_again_too(status: int) -> None:
    async with ApiServer() as server, server.client() as client:
        server.put(JOBS, job("old"))
        server.script("GET", JOBS.path(), *[refuses(status, "No")] * 3)
        backoff = Recorded()
        cache = Cache(client, JOBS, Job, backoff=backoff)
        task = asyncio.create_task(cache.run())
        await asyncio.wait_for(cache.synced.wait(), 10)
        assert cache.all()[0].metadata.name == "old"
        assert server.count()["GET"] == 4
        assert_backed_off(backoff.waits, 3)
        task.cancel()


async def test_a_server_that_says_when_to_come_again_is_obeyed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "cede.kube.cache"):
        async with running(
            refuses(429, "TooManyRequests", headers={"Retry-After": "3600"})
        ) as world:
            await world.until(lambda: world.cache.synced.is_set())
            while not caplog.records:  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert vars(caplog.records[0])["again_in_s"] == 3600
            assert world.requests == (1, 1)


@given(st.integers(min_value=0, max_value=10_000))
def test_no_wait_is_shorter_than_half_of_what_it_should_be_or_longer_than_the_most(
    failures: int,
) -> None:
    assert 0.4 <= Backoff().seconds(failures) <= 30.0


# --- the copy -------------------------------------------------------------------------------------
async def test_the_copy_follows_what_happens() -> None:
    async with running() as world:
        await world.until(lambda: world.cache.synced.is_set())
        world.server.put(JOBS, job("old", 5))
        world.server.put(JOBS, job("new"))
        await world.until(lambda: len(world.cache.objects) == 2)
        found = world.cache.get(("a", "old"))
        assert found is not None
        assert found.spec.parallelism == 5
        world.server.remove(JOBS, ("a", "old"))
        await world.until(lambda: len(world.cache.objects) == 1)
        assert [one.metadata.name for one in world.cache.all()] == ["new"]
        assert world.requests == (1, 1)


async def test_what_was_deleted_in_a_gap_is_gone_after_it() -> None:
    server: ApiServer

    async def gap(request: web.Request) -> web.StreamResponse:
        """The watch breaks; meanwhile `old` is deleted, and the server forgets that it was."""
        server.remove(JOBS, ("a", "old"))
        server.compact()
        return await sends()(request)

    async with running(gap) as world:
        server = world.server
        await world.until(lambda: world.cache.synced.is_set() and not world.cache.objects)
        assert world.requests[0] == 2


async def test_with_a_bookmark_a_quiet_watch_survives_what_the_server_forgets() -> None:
    server: ApiServer

    async def bookmarked(request: web.Request) -> web.StreamResponse:
        server.bookmark(JOBS)
        server.compact()
        return await sends(
            watch_line("BOOKMARK", {"metadata": {"resourceVersion": str(server.version)}})
        )(request)

    async with running(bookmarked) as world:
        server = world.server
        await world.until(lambda: world.cache.synced.is_set())
        while world.server.count()["WATCH"] < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        world.server.put(JOBS, job("new"))
        await world.until(lambda: world.cache.get(("a", "new")) is not None)
        assert world.requests == (1, 2), "it went on from the bookmark, without a new list"


async def test_a_lost_bookmark_costs_a_list_and_nothing_else() -> None:
    server: ApiServer

    async def forgotten(request: web.Request) -> web.StreamResponse:
        # much happened to other kinds, and no bookmark told us
        server.version += 50
        server.compact()
        return await sends()(request)

    async with running(forgotten) as world:
        server = world.server
        await world.until(lambda: world.cache.synced.is_set())
        while world.server.count()["WATCH"] < 3:  # noqa: ASYNC110
            await asyncio.sleep(0)
        world.server.put(JOBS, job("new"))
        await world.until(lambda: world.cache.get(("a", "new")) is not None)
        assert world.cache.get(("a", "old")) is not None
        assert world.requests == (2, 3)


async def test_an_object_that_cannot_be_read_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    odd = {"metadata": {"name": "odd", "namespace": "a"}, "spec": "not a spec"}
    async with running() as world:
        await world.until(lambda: world.cache.synced.is_set())
        world.server.put(JOBS, odd)
        while not world.backoff.waits:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert world.cache.get(("a", "old")) is not None
        assert "a/odd" in vars(caplog.records[0])["reason"]
        world.server.put(JOBS, job("odd"))
        await world.until(lambda: world.cache.get(("a", "odd")) is not None)


async def test_a_cache_of_plain_json_needs_no_class() -> None:
    async with ApiServer() as server, server.client() as client:
        server.put(JOBS, job("old"))
        cache = Cache(client, JOBS, dict)
        task = asyncio.create_task(cache.run())
        await asyncio.wait_for(cache.synced.wait(), 10)
        assert cache.objects[("a", "old")]["spec"] == {"parallelism": 1}
        task.cancel()


@pytest.mark.parametrize(
    ("status", "reason", "trouble"),
    [
        pytest.param(404, "NotFound", "404 NotFound: so it is", id="a kind that is not there"),
        pytest.param(403, "Forbidden", "403 Forbidden: so it is", id="a kind that is not for us"),
        pytest.param(429, "TooManyRequests", "", id="a server that is busy is no trouble"),
    ],
)
async def test_why_nothing_is_heard_is_told_and_forgotten_once_it_is(
    status: int, reason: str, trouble: str
) -> None:
    async with ApiServer() as server, server.client() as client:
        server.script("GET", JOBS.path(), refuses(status, reason, "so it is"))
        told = list[str]()
        cache = Cache(
            client, JOBS, Job, changed=lambda: told.append(cache.trouble), backoff=Recorded()
        )
        task = asyncio.create_task(cache.run())
        await cache.synced.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert told == ([trouble, ""] if trouble else [""])


async def test_the_echo_of_our_own_write_is_no_news_and_what_comes_after_is() -> None:
    async with ApiServer() as server, server.client() as client:
        stored = server.put(JOBS, job("a"))
        changed = asyncio.Event()
        expectations = Expectations()
        cache = Cache(
            client, JOBS, Job, changed=changed.set, backoff=Recorded(), expectations=expectations
        )
        task = asyncio.create_task(cache.run())
        await changed.wait()
        changed.clear()
        expectations.clear_observed()
        [key] = cache.objects
        version = str(server.version + 1)
        expectations.record_write(key, version)
        server.put(JOBS, stored | {"spec": {"parallelism": 7}})
        async with asyncio.timeout(5):
            while cache.objects[key].metadata.resourceVersion != version:  # noqa: ASYNC110  # nothing tells: that is the point
                await asyncio.sleep(0)
        assert not changed.is_set()
        assert expectations.only_own_writes
        server.put(JOBS, stored | {"spec": {"parallelism": 8}})
        await asyncio.wait_for(changed.wait(), 5)
        assert not expectations.only_own_writes
        expectations.record_write(key, cache.objects[key].metadata.resourceVersion)
        assert expectations.only_own_writes, "it came before the answer"
        changed.clear()
        server.remove(JOBS, key)
        await asyncio.wait_for(changed.wait(), 5)
        assert not expectations.only_own_writes
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
