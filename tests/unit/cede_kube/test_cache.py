"""The cache against every fault of a watch: it keeps or rebuilds the copy, and backs off."""

import asyncio
import logging

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from cede.api.kueue import Job
from cede.api.objects import JOBS, Projection
from cede.kube import long_responses
from cede.kube.backoff import Backoff
from cede.kube.cache import Cache
from tests.fakes.api_faults import drops, refuses, sends, sends_error_event
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import Answer, watch_line
from tests.harness.running_cache import Recorded, job, running

FAILURES = 6


# --- faults --------------------------------------------------------------
@pytest.mark.parametrize(
    ("fault", "lists", "watches"),
    [
        pytest.param(sends(), 1, FAILURES + 1, id="200, then the end"),
        pytest.param(
            sends(watch_line("BOOKMARK", {"metadata": {"resourceVersion": "101"}})),
            1,
            FAILURES + 1,
            id="one event, then the end",
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
        pytest.param(sends(b"<html>\n"), 1, FAILURES + 1, id="no event"),
    ],
)
async def test_a_failed_watch_is_retried_after_growing_delays(
    fault: Answer, lists: int, watches: int
) -> None:
    async with running(*[fault] * FAILURES) as run:
        await run.until(lambda: run.cache.synced.is_set())
        while run.server.count()["WATCH"] != watches:
            assert run.cache.get(("a", "old")), "the copy is kept while the watch is broken"
            await asyncio.sleep(0)
        run.server.put(JOBS, job("new"))
        await run.until(lambda: run.cache.get(("a", "new")) is not None)
        assert run.requests == (lists, watches)
        assert_backed_off(run.backoff.delays, FAILURES)


async def test_a_list_replaces_an_event_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_responses, "MAX_LINE_BYTES", 1000)
    async with running(sends(b"x" * 1001)) as run:
        while run.requests != (2, 2):  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_a_connection_dropped_before_the_response_is_retried() -> None:
    """aiohttp itself retries once, at once, so two drops are one failure."""
    async with running(*[drops()] * FAILURES) as run:
        await run.until(lambda: run.cache.synced.is_set())
        while run.server.count()["WATCH"] != FAILURES + 1:  # noqa: ASYNC110
            await asyncio.sleep(0)
        run.server.put(JOBS, job("new"))
        await run.until(lambda: run.cache.get(("a", "new")) is not None)
        assert run.requests == (1, FAILURES + 1)
        assert_backed_off(run.backoff.delays, FAILURES // 2)


def assert_backed_off(delays: list[float], failures: int) -> None:
    assert len(delays) == failures
    for turn, delay in enumerate(delays):
        longest = min(30, 0.8 * 2**turn)
        assert 0.5 * longest <= delay <= longest


@pytest.mark.parametrize("status", [403, 410, 500])
async def test_a_failed_list_is_retried_too(status: int) -> None:
    async with ApiServer() as server, server.client() as client:
        server.put(JOBS, job("old"))
        server.script("GET", JOBS.path(), *[refuses(status, "No")] * 3)
        backoff = Recorded()
        cache = Cache(client, JOBS, Job, backoff=backoff)
        task = asyncio.create_task(cache.run())
        await asyncio.wait_for(cache.synced.wait(), 10)
        assert cache.all()[0].metadata.name == "old"
        assert server.count()["GET"] == 4
        assert_backed_off(backoff.delays, 3)
        task.cancel()


async def test_the_delay_that_the_server_asks_for_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "cede.kube.cache"):
        async with running(refuses(429, "TooManyRequests", headers={"Retry-After": "3600"})) as run:
            await run.until(lambda: run.cache.synced.is_set())
            while not caplog.records:  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert vars(caplog.records[0])["retry_in_s"] == 3600
            assert run.requests == (1, 1)


@given(st.integers(min_value=0, max_value=10_000))
def test_every_delay_is_within_its_bounds(failures: int) -> None:
    assert 0.4 <= Backoff().seconds(failures) <= 30.0


# --- the copy -------------------------------------------------------------------------------------
async def test_the_copy_follows_changes_and_deletions() -> None:
    async with running() as run:
        await run.until(lambda: run.cache.synced.is_set())
        run.server.put(JOBS, job("old", 5))
        run.server.put(JOBS, job("new"))
        await run.until(lambda: len(run.cache.objects) == 2)
        changed = run.cache.get(("a", "old"))
        assert changed is not None
        assert changed.spec.parallelism == 5
        run.server.remove(JOBS, ("a", "old"))
        await run.until(lambda: len(run.cache.objects) == 1)
        assert [item.metadata.name for item in run.cache.all()] == ["new"]
        assert run.requests == (1, 1)


async def test_an_object_deleted_between_watches_is_removed() -> None:
    server: ApiServer

    async def gap(request: web.Request) -> web.StreamResponse:
        """The watch ends. Meanwhile `old` is deleted and the history compacted."""
        server.remove(JOBS, ("a", "old"))
        server.compact()
        return await sends()(request)

    async with running(gap) as run:
        server = run.server
        await run.until(lambda: run.cache.synced.is_set() and not run.cache.objects)
        assert run.requests[0] == 2


async def test_after_a_bookmark_a_compacted_history_costs_no_list() -> None:
    server: ApiServer

    async def bookmarked(request: web.Request) -> web.StreamResponse:
        server.bookmark(JOBS)
        server.compact()
        return await sends(
            watch_line("BOOKMARK", {"metadata": {"resourceVersion": str(server.version)}})
        )(request)

    async with running(bookmarked) as run:
        server = run.server
        await run.until(lambda: run.cache.synced.is_set())
        while run.server.count()["WATCH"] < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        run.server.put(JOBS, job("new"))
        await run.until(lambda: run.cache.get(("a", "new")) is not None)
        assert run.requests == (1, 2), "it continued from the bookmark"


async def test_without_a_bookmark_a_compacted_history_costs_a_list() -> None:
    """After it, an object that did not change is the same object, so nobody reads it again."""
    server: ApiServer
    copies = list[Projection | None]()

    async def forgotten(request: web.Request) -> web.StreamResponse:
        copies.append(run.cache.get(("a", "old")))
        # other kinds have changed, and there was no bookmark
        server.version += 50
        server.compact()
        return await sends()(request)

    async with running(forgotten) as run:
        server = run.server
        await run.until(lambda: run.cache.synced.is_set())
        while run.server.count()["WATCH"] < 3:  # noqa: ASYNC110
            await asyncio.sleep(0)
        run.server.put(JOBS, job("new"))
        await run.until(lambda: run.cache.get(("a", "new")) is not None)
        assert copies[0] is not None
        assert run.cache.get(("a", "old")) is copies[0]
        assert run.requests == (2, 3)


async def test_a_cache_of_plain_json_needs_no_class() -> None:
    async with ApiServer() as server, server.client() as client:
        server.put(JOBS, job("old"))
        cache = Cache(client, JOBS, dict)
        task = asyncio.create_task(cache.run())
        await asyncio.wait_for(cache.synced.wait(), 10)
        assert cache.objects[("a", "old")]["spec"] == {"parallelism": 1}
        task.cancel()


@pytest.mark.parametrize(
    ("fault", "times", "trouble"),
    [
        pytest.param(refuses(404, "NotFound"), 1, "404 NotFound: no", id="no such kind"),
        pytest.param(refuses(403, "Forbidden"), 1, "403 Forbidden: no", id="we may not read it"),
        pytest.param(refuses(500, "Internal"), 4, "", id="a server that starts is not trouble"),
        pytest.param(refuses(500, "Internal"), 5, "500 Internal: no", id="the server cannot"),
        pytest.param(refuses(503, "Unavailable"), 9, "503 Unavailable: no", id="nor with 503"),
        pytest.param(refuses(429, "TooManyRequests"), 9, "", id="a busy server is not trouble"),
        pytest.param(drops(), 9, "", id="a server that is not reachable is not trouble"),
    ],
)
async def test_the_trouble_is_reported_until_the_first_list_succeeds(
    fault: Answer, times: int, trouble: str
) -> None:
    async with ApiServer() as server, server.client() as client:
        server.script("GET", JOBS.path(), *[fault] * times)
        troubles = list[str]()
        cache = Cache(
            client,
            JOBS,
            Job,
            changed=lambda: troubles.append(str(cache.trouble or "")),
            backoff=Recorded(),
        )
        task = asyncio.create_task(cache.run())
        await cache.synced.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert troubles == ([trouble, ""] if trouble else [""])
