"""Reading over real HTTP, and the exception for each refusal."""

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from cede.api.kueue import ClusterQueue, Job, MetadataOnly
from cede.api.objects import ALLOCATIONS, CLUSTER_QUEUES, JOBS, NODES, Json
from cede.api.policy import ClusterPolicy
from cede.kube import client as client_module
from cede.kube import decoding, long_responses
from cede.kube.client import Client, HttpClient
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
from tests.fakes.api_faults import hangs, refuses
from tests.fakes.api_server import ApiServer
from tests.harness.late_cancellation import cancelled_when_late


def job(name: str, namespace: str = "a", **spec: object) -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


# --- reading --------------------------------------------------------------------------------------
async def test_a_long_list_is_read_in_pages(server: ApiServer, client: Client) -> None:
    for i in range(1201):
        server.put(NODES, {"metadata": {"name": f"n{i:04}"}})
    nodes, version = await client.list(NODES, MetadataOnly)
    assert [node.metadata.name for node in nodes] == [f"n{i:04}" for i in range(1201)]
    assert version == str(server.version)
    assert server.count()["GET"] == 5


async def test_large_objects_come_in_small_pages(
    server: ApiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but their users limits how large objects are. One alone may exceed the limit."""
    monkeypatch.setattr(long_responses, "MAX_PAGE_BYTES", 20_000)
    sizes = [0] * 100 + [3000] * 20 + [30_000] * 2 + [0] * 100
    for i, size in enumerate(sizes):
        server.put(NODES, {"metadata": {"name": f"n{i:03}"}, "data": "x" * size})
    largest = list[int]()
    page = decoding.page

    def note(content: bytes, *rest: Any) -> Any:
        largest.append(len(content))
        return page(content, *rest)

    monkeypatch.setattr(decoding, "page", note)
    nodes, _ = await client.list(NODES, MetadataOnly)
    assert [node.metadata.name for node in nodes] == [f"n{i:03}" for i in range(len(sizes))]
    assert len([size for size in largest if size > 20_000]) == 2
    assert server.count()["GET"] < 40


async def test_a_list_selects_by_namespace_and_labels(server: ApiServer, client: Client) -> None:
    for name, namespace, labels in (("x", "a", {"t": "1"}), ("y", "a", {}), ("z", "b", {"t": "1"})):
        server.put(JOBS, {"metadata": {"name": name, "namespace": namespace, "labels": labels}})
    jobs, _ = await client.list(JOBS, MetadataOnly, namespace="a", labels="t=1")
    assert [item.metadata.name for item in jobs] == ["x"]


async def test_an_object_is_decoded_as_the_class_that_is_given(
    server: ApiServer, client: Client
) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "ignored"}]}}
    server.put(JOBS, job("j", parallelism=3, template=template))
    assert (await client.get(JOBS, Job, ("a", "j"))).spec.parallelism == 3
    raw = await client.get(JOBS, dict, ("a", "j"))
    assert raw["spec"]["template"]["spec"]["containers"][0]["image"] == "ignored"
    queue = {"metadata": {"name": "q"}, "spec": {"queueingStrategy": "StrictFIFO"}}
    server.put(CLUSTER_QUEUES, queue)
    decoded = await client.get(CLUSTER_QUEUES, ClusterQueue, ("", "q"))
    assert decoded.spec.queueingStrategy == "StrictFIFO"


async def test_a_pydantic_model_is_decoded_by_pydantic(server: ApiServer, client: Client) -> None:
    server.put(ALLOCATIONS, {"metadata": {"name": "p"}, "spec": {"mode": "Observe"}})
    assert (await client.get(ALLOCATIONS, ClusterPolicy, ("", "p"))).spec.mode == "Observe"


@pytest.mark.parametrize("cls", [Job, ClusterPolicy])
async def test_an_object_that_cannot_be_decoded_is_named(
    server: ApiServer, client: Client, cls: type
) -> None:
    server.put(JOBS, {"metadata": {"name": "odd", "namespace": "a"}, "spec": 7})
    with pytest.raises(Unreadable, match="a/odd"):
        await client.get(JOBS, cls, ("a", "odd"))
    with pytest.raises(Unreadable, match="a/odd"):
        await client.list(JOBS, cls)


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
async def test_each_refusal_has_its_exception(
    server: ApiServer, client: Client, status: int, reason: str, error: type[ApiError]
) -> None:
    server.script(
        "GET",
        JOBS.path(("a", "j")),
        *[refuses(status, reason, "because", {"Retry-After": "7"})] * 2,
    )
    with pytest.raises(error, match="because") as raised:
        await client.get(JOBS, dict, ("a", "j"))
    exception = raised.value
    assert type(exception) is error
    assert (exception.status, exception.reason, exception.retry_after_s) == (status, reason, 7.0)


async def test_a_refusal_without_a_status_object_keeps_its_text(
    server: ApiServer, client: Client
) -> None:
    async def proxy(_: web.Request) -> web.StreamResponse:
        return web.Response(status=502, text="<h1>Bad gateway")

    server.script("GET", JOBS.path(), proxy)
    with pytest.raises(ApiError, match="502 Bad Gateway: <h1>Bad gateway"):
        await client.list(JOBS, dict)


async def test_the_clock_of_the_server_is_read_whatever_it_answers(
    server: ApiServer, client: Client
) -> None:
    server.clock = lambda: 1000.0
    assert await client.time() == 1000.0
    date = {"Date": "Thu, 01 Jan 1970 00:20:00 GMT"}
    server.script("GET", "/version", refuses(403, "Forbidden", headers=date))
    assert await client.time() == 1200.0
    server.script("GET", "/version", refuses(403, "Forbidden", headers={"Date": "today"}))
    with pytest.raises(Unreachable, match="today"):
        await client.time()


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


async def test_a_request_that_takes_too_long_is_unreachable(
    server: ApiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "REQUEST_S", 0.05)
    server.script("GET", JOBS.path(), hangs())
    with pytest.raises(Unreachable, match=f"GET {JOBS.path()}: TimeoutError"):
        await client.list(JOBS, dict)


async def test_a_request_that_is_cancelled_when_its_time_is_over_is_cancelled(
    server: ApiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "REQUEST_S", 0.05)
    server.script("GET", JOBS.path(), hangs())
    request = asyncio.create_task(client.list(JOBS, dict))
    await cancelled_when_late(request, 0.05, until=lambda: bool(server.requests))
