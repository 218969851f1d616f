"""Watches over real HTTP: their events, and what ends them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cede.api.kueue import MetadataOnly
from cede.api.objects import JOBS, PODS, Json, Kind
from cede.kube.client import Client
from cede.kube.decoding import WatchEvent
from cede.kube.errors import ApiError, Forbidden, Gone, Unreachable
from tests.fakes.api_faults import drops, refuses, sends, sends_error_event
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import Answer, watch_line


def job(name: str, namespace: str = "a", **spec: object) -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


async def first_events(
    client: Client, kind: Kind, count: int, *, version: str = "0", initial: bool = False
) -> list[tuple[str, str]]:
    """The first `count` events: type, and name or version."""
    events = list[tuple[str, str]]()
    async for event in client.watch(kind, MetadataOnly, version=version, initial=initial):
        events.append((event.type, event.object.metadata.name if event.object else event.version))
        if len(events) == count:
            break
    return events


async def test_a_watch_has_the_events_after_its_version(server: ApiServer, client: Client) -> None:
    server.put(JOBS, job("old"))
    _, version = await client.list(JOBS, MetadataOnly)
    server.put(JOBS, job("new"))
    server.put(JOBS, job("new", parallelism=2))
    server.remove(JOBS, ("a", "old"))
    assert await first_events(client, JOBS, 3, version=version) == [
        ("ADDED", "new"),
        ("MODIFIED", "new"),
        ("DELETED", "old"),
    ]


async def test_a_bookmark_moves_the_version_without_an_object(
    server: ApiServer, client: Client
) -> None:
    server.bookmark(JOBS)
    assert await first_events(client, JOBS, 1, version="1") == [("BOOKMARK", str(server.version))]


async def test_initial_events_end_with_a_marked_bookmark(server: ApiServer, client: Client) -> None:
    server.put(JOBS, job("x"))
    events = client.watch(JOBS, MetadataOnly, version="", initial=True)
    assert [(event.type, event.initial_end) async for event in _first(events, 2)] == [
        ("ADDED", False),
        ("BOOKMARK", True),
    ]


async def _first(
    events: AsyncIterator[WatchEvent[MetadataOnly]], count: int
) -> AsyncIterator[WatchEvent[MetadataOnly]]:
    async for event in events:
        yield event
        count -= 1
        if not count:
            return


async def test_an_object_that_leaves_the_selection_is_deleted(
    server: ApiServer, client: Client
) -> None:
    server.put(PODS, {"metadata": {"name": "p", "namespace": "a", "labels": {"t": "1"}}})
    server.put(PODS, {"metadata": {"name": "p", "namespace": "a", "labels": {}}})
    types = [
        event.type
        async for event in _first(
            client.watch(PODS, MetadataOnly, version="1", initial=False, labels="t"), 2
        )
    ]
    assert types == ["ADDED", "DELETED"]


async def test_lines_may_arrive_in_any_chunks(server: ApiServer, client: Client) -> None:
    content = (
        watch_line("ADDED", job("ä🙂"))
        + watch_line("ADDED", job("b"))
        + b"\n"
        + watch_line("ADDED", job("c"))
    )
    server.script(
        "WATCH", JOBS.path(), sends(*(content[i : i + 7] for i in range(0, len(content), 7)))
    )
    assert await first_events(client, JOBS, 3) == [("ADDED", "ä🙂"), ("ADDED", "b"), ("ADDED", "c")]


async def test_an_object_may_have_one_and_a_half_megabytes(
    server: ApiServer, client: Client
) -> None:
    big = job("big") | {"data": "x" * 1_500_000}
    server.put(JOBS, big)
    assert await first_events(client, JOBS, 1, version="1") == [("ADDED", "big")]


async def test_each_of_its_characters_may_take_six_bytes(server: ApiServer, client: Client) -> None:
    """An API server writes `<` as `\\u003c`."""
    line = watch_line("ADDED", job("big") | {"data": "<" * 1_400_000}).replace(b"<", rb"\u003c")
    server.script("WATCH", JOBS.path(), sends(line))
    assert await first_events(client, JOBS, 1) == [("ADDED", "big")]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(sends_error_event(410, "Expired"), Gone, id="gone, in the stream"),
        pytest.param(
            sends_error_event(504, "Timeout", "Too large resource version: 9, current: 3"),
            Gone,
            id="a version that is not there yet",
        ),
        pytest.param(
            sends_error_event(500, "InternalError"), ApiError, id="an error in the stream"
        ),
        pytest.param(refuses(410, "Expired"), Gone, id="gone"),
        pytest.param(refuses(403, "Forbidden"), Forbidden, id="forbidden"),
        pytest.param(
            drops(),
            Unreachable,
            id="dropped before the response, twice: aiohttp itself retries once",
        ),
        pytest.param(
            drops(watch_line("ADDED", job("x"))[:20]), Unreachable, id="dropped inside a line"
        ),
        pytest.param(sends(b'{"type":"ADDED","obj\n'), Unreachable, id="half an event"),
        pytest.param(sends(b"<html>\n"), Unreachable, id="the page of a proxy"),
        pytest.param(sends(b"x" * (17 << 20)), Gone, id="a line without end"),
    ],
)
async def test_a_broken_watch_raises_what_broke_it(
    server: ApiServer, client: Client, answer: Answer, error: type
) -> None:
    server.script("WATCH", JOBS.path(), answer, answer)
    with pytest.raises(error):
        await asyncio.wait_for(first_events(client, JOBS, 2), 10)
