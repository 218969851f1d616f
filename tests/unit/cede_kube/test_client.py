"""The verbs over real HTTP: what is sent, what is understood, what each refusal is called."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from cede.api.kueue import ClusterQueue, Job, MetadataOnly
from cede.api.objects import ALLOCATIONS, CLUSTER_QUEUES, JOBS, NODES, PODS, Json, Kind
from cede.api.policy import ClusterPolicy
from cede.kube.client import Client, HttpClient
from cede.kube.decoding import WatchEvent
from cede.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    Unreadable,
)
from tests.fakes.api_faults import drops, refuses, sends, sends_error_event
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import Answer, watch_line


def job(name: str, namespace: str = "a", **spec: object) -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[HttpClient]:
    async with server.client(manager="tester") as client:
        yield client


# --- reading --------------------------------------------------------------------------------------
async def test_a_long_list_comes_in_pages_and_whole(server: ApiServer, client: Client) -> None:
    for i in range(1201):
        server.put(NODES, {"metadata": {"name": f"n{i:04}"}})
    found, version = await client.list(NODES, MetadataOnly)
    assert [one.metadata.name for one in found] == [f"n{i:04}" for i in range(1201)]
    assert version == str(server.version)
    assert server.count()["GET"] == 3


async def test_a_list_is_of_a_namespace_and_of_labels(server: ApiServer, client: Client) -> None:
    for name, namespace, labels in (("x", "a", {"t": "1"}), ("y", "a", {}), ("z", "b", {"t": "1"})):
        server.put(JOBS, {"metadata": {"name": name, "namespace": namespace, "labels": labels}})
    found, _ = await client.list(JOBS, MetadataOnly, namespace="a", labels="t=1")
    assert [one.metadata.name for one in found] == ["x"]


async def test_an_object_is_what_is_asked_for(server: ApiServer, client: Client) -> None:
    server.put(
        JOBS,
        job(
            "j",
            parallelism=3,
            template={"spec": {"containers": [{"name": "c", "image": "ignored"}]}},
        ),
    )
    assert (await client.get(JOBS, Job, ("a", "j"))).spec.parallelism == 3
    assert (await client.get(JOBS, dict, ("a", "j")))["spec"]["template"]["spec"]["containers"][0][
        "image"
    ] == "ignored"
    server.put(
        CLUSTER_QUEUES, {"metadata": {"name": "q"}, "spec": {"queueingStrategy": "StrictFIFO"}}
    )
    assert (
        await client.get(CLUSTER_QUEUES, ClusterQueue, ("", "q"))
    ).spec.queueingStrategy == "StrictFIFO"
    # decoded by pydantic, whatever its kind
    server.put(ALLOCATIONS, {"metadata": {"name": "p"}, "spec": {"mode": "Observe"}})
    assert (await client.get(ALLOCATIONS, ClusterPolicy, ("", "p"))).spec.mode == "Observe"


@pytest.mark.parametrize("cls", [Job, ClusterPolicy])
async def test_what_cannot_be_read_is_named(server: ApiServer, client: Client, cls: type) -> None:
    server.put(JOBS, {"metadata": {"name": "odd", "namespace": "a"}, "spec": 7})
    with pytest.raises(Unreadable, match="a/odd"):
        await client.get(JOBS, cls, ("a", "odd"))
    with pytest.raises(Unreadable, match="a/odd"):
        await client.list(JOBS, cls)


# --- watching -------------------------------------------------------------------------------------
async def heard(
    client: Client, kind: Kind, count: int, *, version: str = "0", initial: bool = False
) -> list[tuple[str, str]]:
    """The first `count` events: type, and name or version."""
    found = list[tuple[str, str]]()
    async for event in client.watch(kind, MetadataOnly, version=version, initial=initial):
        found.append((event.type, event.object.metadata.name if event.object else event.version))
        if len(found) == count:
            break
    return found


async def test_a_watch_tells_what_happens_after_its_version(
    server: ApiServer, client: Client
) -> None:
    server.put(JOBS, job("old"))
    _, version = await client.list(JOBS, MetadataOnly)
    server.put(JOBS, job("new"))
    server.put(JOBS, job("new", parallelism=2))
    server.remove(JOBS, ("a", "old"))
    assert await heard(client, JOBS, 3, version=version) == [
        ("ADDED", "new"),
        ("MODIFIED", "new"),
        ("DELETED", "old"),
    ]


async def test_a_bookmark_moves_the_version_without_an_object(
    server: ApiServer, client: Client
) -> None:
    server.bookmark(JOBS)
    assert await heard(client, JOBS, 1, version="1") == [("BOOKMARK", str(server.version))]


async def test_initial_events_end_with_a_bookmark_that_says_so(
    server: ApiServer, client: Client
) -> None:
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


async def test_who_leaves_the_selection_is_deleted_for_the_watch(
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


async def test_a_line_may_come_in_many_chunks_and_many_lines_in_one(
    server: ApiServer, client: Client
) -> None:
    whole = (
        watch_line("ADDED", job("ä🙂"))
        + watch_line("ADDED", job("b"))
        + b"\n"
        + watch_line("ADDED", job("c"))
    )
    server.script("WATCH", JOBS.path(), sends(*(whole[i : i + 7] for i in range(0, len(whole), 7))))
    assert await heard(client, JOBS, 3) == [("ADDED", "ä🙂"), ("ADDED", "b"), ("ADDED", "c")]


async def test_an_object_of_one_and_a_half_megabytes_is_one_line(
    server: ApiServer, client: Client
) -> None:
    big = job("big") | {"data": "x" * 1_500_000}
    server.put(JOBS, big)
    assert await heard(client, JOBS, 1, version="1") == [("ADDED", "big")]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(sends_error_event(410, "Expired"), Gone, id="gone, in the stream"),
        pytest.param(
            sends_error_event(504, "Timeout", "Too large resource version: 9, current: 3"),
            Gone,
            id="a version not yet there",
        ),
        pytest.param(
            sends_error_event(500, "InternalError"), ApiError, id="an error in the stream"
        ),
        pytest.param(refuses(410, "Expired"), Gone, id="gone"),
        pytest.param(refuses(403, "Forbidden"), Forbidden, id="forbidden"),
        pytest.param(
            drops(),
            Unreachable,
            id="dropped before the answer, twice: aiohttp itself tries once more",
        ),
        pytest.param(
            drops(watch_line("ADDED", job("x"))[:20]), Unreachable, id="dropped inside a line"
        ),
        pytest.param(
            sends(b'{"type":"ADDED","obj\n'), Unreachable, id="half a line, then the next"
        ),
        pytest.param(sends(b"<html>\n"), Unreachable, id="a proxy's page"),
        pytest.param(sends(b"x" * (5 << 20)), Unreachable, id="a line without end"),
    ],
)
async def test_a_broken_watch_raises_what_broke_it(
    server: ApiServer, client: Client, answer: Answer, error: type
) -> None:
    server.script("WATCH", JOBS.path(), answer, answer)
    with pytest.raises(error):
        await asyncio.wait_for(heard(client, JOBS, 2), 10)


# --- refusals -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("status", "reason", "error"),
    [
        (400, "BadRequest", Invalid),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ApiError),
        (503, "ServiceUnavailable", ApiError),
    ],
)
async def test_each_refusal_has_its_name(
    server: ApiServer, client: Client, status: int, reason: str, error: type[ApiError]
) -> None:
    server.script(
        "GET",
        JOBS.path(("a", "j")),
        *[refuses(status, reason, "because", {"Retry-After": "7"})] * 2,
    )
    with pytest.raises(error, match="because") as found:
        await client.get(JOBS, dict, ("a", "j"))
    assert type(found.value) is error
    assert (found.value.status, found.value.reason, found.value.retry_after_s) == (
        status,
        reason,
        7.0,
    )


async def test_a_refusal_that_is_no_status_still_says_something(
    server: ApiServer, client: Client
) -> None:
    async def proxy(_: web.Request) -> web.StreamResponse:
        return web.Response(status=502, text="<h1>Bad gateway")

    server.script("GET", JOBS.path(), proxy)
    with pytest.raises(ApiError, match="502 Bad Gateway: <h1>Bad gateway"):
        await client.list(JOBS, dict)


async def test_a_redirect_is_not_followed(server: ApiServer, client: Client) -> None:
    async def elsewhere(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/api/v1/secrets")

    server.script("GET", JOBS.path(), elsewhere)
    with pytest.raises(ApiError, match="302"):
        await client.list(JOBS, dict)
    assert len(server.requests) == 1


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    async with ApiServer() as server:
        url = server.url
    async with aiohttp.ClientSession() as session:
        with pytest.raises(Unreachable):
            await HttpClient(session, Configuration(host=url), "tester").list(JOBS, dict)


# --- writing --------------------------------------------------------------------------------------
async def test_apply_sends_all_we_say_as_utf8_under_our_name(
    server: ApiServer, client: Client
) -> None:
    sent = list[tuple[str, str, bytes]]()

    async def look(request: web.Request) -> web.StreamResponse:
        sent.append((request.content_type, request.query_string, await request.read()))
        return web.json_response({})

    server.script("PATCH", JOBS.path(("a", "j")), look, look)
    body = {"metadata": {"name": "j", "annotations": {"note": "🙂"}}}
    await client.apply(JOBS, ("a", "j"), body)
    await client.apply(JOBS, ("a", "j"), body, force=False)
    (media, query, content), (_, gently, _) = sent
    assert media == "application/apply-patch+yaml"
    assert (query, gently) == ("fieldManager=tester&force=true", "fieldManager=tester&force=false")
    assert "🙂".encode() in content
    assert b'"apiVersion":"batch/v1","kind":"Job"' in content


async def test_apply_creates_then_changes_then_leaves_alone(
    server: ApiServer, client: Client
) -> None:
    first = await client.apply(JOBS, ("a", "j"), job("j", parallelism=1))
    second = await client.apply(JOBS, ("a", "j"), job("j", parallelism=2))
    third = await client.apply(JOBS, ("a", "j"), job("j", parallelism=2))
    versions = [int(one["metadata"]["resourceVersion"]) for one in (first, second, third)]
    assert versions[0] < versions[1] == versions[2]
    assert [one["metadata"]["generation"] for one in (first, second, third)] == [1, 2, 2]


async def test_apply_does_not_make_anew_what_was_planned_on_and_is_gone(
    server: ApiServer, client: Client
) -> None:
    with pytest.raises(Conflict):
        await client.apply(JOBS, ("a", "j"), {"metadata": {"name": "j", "uid": "1"}})


async def test_a_patch_is_a_merge_or_a_list_of_operations(
    server: ApiServer, client: Client
) -> None:
    server.put(JOBS, job("j", parallelism=8, completions=8))
    version = (await client.get(JOBS, Job, ("a", "j"))).metadata.resourceVersion
    await client.patch(
        JOBS,
        ("a", "j"),
        {"metadata": {"resourceVersion": version}, "spec": {"parallelism": 4, "completions": None}},
    )
    assert (server.get(JOBS, ("a", "j")) or {})["spec"] == {"parallelism": 4}
    with pytest.raises(Conflict):
        await client.patch(
            JOBS, ("a", "j"), {"metadata": {"resourceVersion": version}, "spec": {"parallelism": 2}}
        )
    await client.patch(
        JOBS, ("a", "j"), [{"op": "replace", "path": "/spec/parallelism", "value": 6}]
    )
    with pytest.raises(Invalid):
        await client.patch(
            JOBS, ("a", "j"), [{"op": "test", "path": "/spec/parallelism", "value": 4}]
        )
    assert (server.get(JOBS, ("a", "j")) or {})["spec"] == {"parallelism": 6}


async def test_status_is_written_apart(server: ApiServer, client: Client) -> None:
    server.put(JOBS, job("j", parallelism=1))
    await client.patch(
        JOBS,
        ("a", "j"),
        {"status": {"active": 1}, "spec": {"parallelism": 9}},
        subresource="status",
    )
    await client.patch(JOBS, ("a", "j"), {"status": {"active": 5}})
    found = server.get(JOBS, ("a", "j")) or {}
    assert (found["status"], found["spec"], found["metadata"]["generation"]) == (
        {"active": 1},
        {"parallelism": 1},
        1,
    )


async def test_create_refuses_a_name_twice_and_makes_names(
    server: ApiServer, client: Client
) -> None:
    await client.create(JOBS, job("j"), namespace="a")
    with pytest.raises(AlreadyExists):
        await client.create(JOBS, job("j"), namespace="a")
    made = await client.create(JOBS, {"metadata": {"generateName": "j-"}}, namespace="a")
    assert made["metadata"]["name"].startswith("j-")


async def test_delete_takes_the_very_object_and_waits_for_its_finalizers(
    server: ApiServer, client: Client
) -> None:
    server.put(JOBS, {"metadata": {"name": "j", "namespace": "a", "finalizers": ["f"]}})
    with pytest.raises(Conflict):
        await client.delete(JOBS, ("a", "j"), uid="another")
    await client.delete(
        JOBS, ("a", "j"), uid=(await client.get(JOBS, Job, ("a", "j"))).metadata.uid
    )
    assert (await client.get(JOBS, Job, ("a", "j"))).metadata.deletionTimestamp
    await client.patch(JOBS, ("a", "j"), {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await client.delete(JOBS, ("a", "j"))


async def test_replace_carries_the_version_it_read(server: ApiServer, client: Client) -> None:
    server.put(JOBS, job("j", parallelism=1))
    read = await client.get(JOBS, dict, ("a", "j"))
    await client.replace(JOBS, ("a", "j"), read | {"spec": {}})
    with pytest.raises(Conflict):
        await client.replace(JOBS, ("a", "j"), read | {"spec": {"parallelism": 3}})
