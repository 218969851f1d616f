"""The root key is created once, namespaces derive theirs, and its loss stops nothing else."""

import base64
from collections.abc import AsyncIterator

import pytest

from cede.api.objects import SECRETS
from elastic_runtime.contract import derive_key
from quota_controller.root_key import ROOT_SECRET
from tests.harness.quota_controller import (
    World,
    condition_of,
    existing,
    filled,
    put_allocation,
    started,
)

METADATA = {"name": ROOT_SECRET[1], "namespace": ROOT_SECRET[0]}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with filled() as world:
        yield world


async def test_namespaces_derive_their_keys_from_the_root_key(world: World) -> None:
    await world.settle()
    root_key = base64.b64decode(existing(world.server, SECRETS, ROOT_SECRET)["data"]["key"])
    assert len(root_key) == 64
    assert bytes.fromhex(root_key.decode())
    secret = existing(world.server, SECRETS, ("vision", "cede-control"))
    assert base64.b64decode(secret["data"]["key"]) == derive_key(root_key, "vision")


async def test_another_leader_uses_the_same_root_key(world: World) -> None:
    await world.settle()
    async with started(world.server) as second:
        assert await second.settle() == []


async def test_a_lost_root_key_is_reported_and_stops_only_new_keys(world: World) -> None:
    await world.settle()
    before = existing(world.server, SECRETS, ("vision", "cede-control"))["data"]
    # as after a restart
    world.controller.root_key = b""
    world.server.put(SECRETS, {"metadata": METADATA, "data": {"keys": "eA=="}})
    put_allocation(world.server, "late")
    await world.settle()
    ready = condition_of(world.policy_status(), "Ready")
    assert ready["reason"] == "RootKeyMissing"
    assert "restore the entry" in ready["message"]
    assert existing(world.server, SECRETS, ("vision", "cede-control"))["data"] == before
    assert world.ready("late")["status"] == "True", "quota does not depend on the key"
    assert world.server.get(SECRETS, ("late", "cede-control")) is None


async def test_a_restored_root_key_is_used(world: World) -> None:
    world.server.put(SECRETS, {"metadata": METADATA, "data": {}})
    await world.settle()
    assert world.server.get(SECRETS, ("vision", "cede-control")) is None
    key = base64.b64encode(b"k" * 64).decode()
    world.server.put(SECRETS, {"metadata": METADATA, "data": {"key": key}})
    await world.settle()
    assert world.server.get(SECRETS, ("vision", "cede-control"))
