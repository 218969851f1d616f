"""The flags, and the cache of teams."""

import asyncio
from typing import Any

import pytest

from cede.api.objects import ALLOCATIONS, DEPLOYMENTS, LOCAL_QUEUES
from cede.kube.cache import Cache
from tests.fakes.api_server import ApiServer
from webhook.__main__ import Flags, TeamCache, find_own_image, parse_flags


def test_the_flags_and_their_defaults() -> None:
    assert parse_flags([]) == Flags(
        kubeconfig=None, port=8443, health_port=8080, drain_s=5.0, log_level="INFO"
    )
    assert parse_flags(["--port", "1", "--drain-seconds", "0.5"]).port == 1
    assert parse_flags(["--drain-seconds", "0.5"]).drain_s == 0.5


async def test_a_team_is_built_once_and_again_after_a_change() -> None:
    async with ApiServer() as server, server.client("cede-webhook") as client:
        server.put(ALLOCATIONS, {"metadata": {"name": "vision"}, "spec": {}})
        teams = TeamCache(client, "cede:1")
        changed = signal_changes(teams.queues)
        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            caches: list[Cache[Any]] = [teams.policies, teams.allocations, teams.queues]
            watches = [tasks.create_task(cache.run()) for cache in caches]
            for cache in caches:
                await cache.synced.wait()
            team = teams.get_team("vision")
            assert team.queues == frozenset()
            assert team.runtime_image == "cede:1"
            assert teams.get_team("vision") is team
            changed.clear()
            metadata = {"name": "night", "namespace": "vision"}
            server.put(LOCAL_QUEUES, {"metadata": metadata, "spec": {"clusterQueue": "vision"}})
            await changed.wait()
            assert teams.get_team("vision").queues == {"night"}
            for watch in watches:
                watch.cancel()


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param(
            {"proxy": "proxy:3", "webhook": "cede@sha256:01"}, "cede@sha256:01", id="ours"
        ),
        pytest.param({"other": "other:1"}, "", id="none of that name"),
        pytest.param(None, "", id="outside a cluster"),
    ],
)
async def test_our_image_is_that_of_our_deployment(
    containers: dict[str, str] | None, expected: str
) -> None:
    async with ApiServer() as server, server.client("cede-webhook") as client:
        if containers:
            pod = {"containers": [{"name": n, "image": image} for n, image in containers.items()]}
            metadata = {"name": "cede-webhook", "namespace": "cede-system"}
            spec = {"template": {"spec": pod}}
            server.put(DEPLOYMENTS, {"metadata": metadata, "spec": spec})
        assert await find_own_image(client) == expected


def signal_changes(cache: Cache[Any]) -> asyncio.Event:
    """An event that is set after the cache has reported a change."""
    changed = asyncio.Event()
    report = cache._changed

    def report_and_signal() -> None:
        report()
        changed.set()

    cache._changed = report_and_signal
    return changed
