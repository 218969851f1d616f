"""Writes over real HTTP: apply, patch, create, replace, delete."""

import pytest
from aiohttp import web

from cede.api.kueue import Job
from cede.api.objects import JOBS, Json
from cede.kube.client import Client
from cede.kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from tests.fakes.api_server import ApiServer


def job(name: str, namespace: str = "a", **spec: object) -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


async def test_apply_sends_utf8_with_our_field_manager(server: ApiServer, client: Client) -> None:
    sent = list[tuple[str, str, bytes]]()

    async def record(request: web.Request) -> web.StreamResponse:
        sent.append((request.content_type, request.query_string, await request.read()))
        return web.json_response({})

    server.script("PATCH", JOBS.path(("a", "j")), record, record)
    body = {"metadata": {"name": "j", "annotations": {"note": "🙂"}}}
    await client.apply(JOBS, ("a", "j"), body)
    await client.apply(JOBS, ("a", "j"), body, force=False)
    media, query, content = sent[0]
    query_without_force = sent[1][1]
    assert media == "application/apply-patch+yaml"
    assert query == "fieldManager=tester&force=true"
    assert query_without_force == "fieldManager=tester&force=false"
    assert "🙂".encode() in content
    assert b'"apiVersion":"batch/v1","kind":"Job"' in content


async def test_apply_creates_then_changes_then_does_nothing(
    server: ApiServer, client: Client
) -> None:
    first = await client.apply(JOBS, ("a", "j"), job("j", parallelism=1))
    second = await client.apply(JOBS, ("a", "j"), job("j", parallelism=2))
    third = await client.apply(JOBS, ("a", "j"), job("j", parallelism=2))
    versions = [int(item["metadata"]["resourceVersion"]) for item in (first, second, third)]
    assert versions[0] < versions[1] == versions[2]
    assert [item["metadata"]["generation"] for item in (first, second, third)] == [1, 2, 2]


async def test_apply_with_a_uid_does_not_create_the_object_again(
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


async def test_the_status_is_written_apart(server: ApiServer, client: Client) -> None:
    server.put(JOBS, job("j", parallelism=1))
    await client.patch(
        JOBS,
        ("a", "j"),
        {"status": {"active": 1}, "spec": {"parallelism": 9}},
        subresource="status",
    )
    await client.patch(JOBS, ("a", "j"), {"status": {"active": 5}})
    stored = server.get(JOBS, ("a", "j")) or {}
    assert stored["status"] == {"active": 1}
    assert stored["spec"] == {"parallelism": 1}
    assert stored["metadata"]["generation"] == 1


async def test_create_refuses_a_second_object_of_a_name(server: ApiServer, client: Client) -> None:
    await client.create(JOBS, job("j"), namespace="a")
    with pytest.raises(AlreadyExists):
        await client.create(JOBS, job("j"), namespace="a")
    created = await client.create(JOBS, {"metadata": {"generateName": "j-"}}, namespace="a")
    assert created["metadata"]["name"].startswith("j-")


async def test_delete_checks_the_uid_and_waits_for_finalizers(
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


async def test_replace_fails_if_the_object_has_changed(server: ApiServer, client: Client) -> None:
    server.put(JOBS, job("j", parallelism=1))
    read = await client.get(JOBS, dict, ("a", "j"))
    await client.replace(JOBS, ("a", "j"), read | {"spec": {}})
    with pytest.raises(Conflict):
        await client.replace(JOBS, ("a", "j"), read | {"spec": {"parallelism": 3}})
