"""The root key is created and replaced, namespaces derive theirs; its loss stops nothing else."""

import base64
from copy import deepcopy

from cede.api import names
from cede.api.objects import SECRETS, Json
from elastic_runtime.contract import KEY_OVERLAP_S, derive_key, valid_keys
from quota_controller.root_key import LIFETIME_S, REFRESH_S, ROOT_SECRET
from tests.fakes.api_faults import refuses
from tests.harness.quota_controller import (
    World,
    condition_of,
    existing,
    put_allocation,
    started,
)

METADATA = {"name": ROOT_SECRET[1], "namespace": ROOT_SECRET[0]}


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
    world.controller.root_key.value = b""
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


# --- replaced -------------------------------------------------------------------------------------
def root_secret(world: World) -> Json:
    return existing(world.server, SECRETS, ROOT_SECRET)


def keys_of_vision(world: World) -> tuple[bytes, ...]:
    secret = existing(world.server, SECRETS, ("vision", "cede-control"))
    return valid_keys(base64.b64decode(secret["data"]["key"]), world.now)


def derived(entry: str) -> bytes:
    return derive_key(base64.b64decode(entry), "vision")


def ask_for_a_new_key(world: World) -> None:
    secret = deepcopy(root_secret(world))
    secret["metadata"]["annotations"][names.NEW_KEY] = "true"
    world.server.put(SECRETS, secret)


async def pass_after(world: World, seconds: float) -> None:
    world.now += seconds
    await world.settle()


async def test_an_admin_gets_a_new_key_and_the_one_before_ends(world: World) -> None:
    await world.settle()
    old = root_secret(world)["data"]["key"]
    world.now += KEY_OVERLAP_S
    ask_for_a_new_key(world)
    await pass_after(world, REFRESH_S)
    secret = root_secret(world)
    assert secret["data"]["previous"] == old
    assert names.NEW_KEY not in secret["metadata"]["annotations"]
    new = secret["data"]["key"]
    assert keys_of_vision(world) == (derived(new), derived(old))
    await pass_after(world, KEY_OVERLAP_S)
    assert keys_of_vision(world) == (derived(new),)


async def test_two_requests_do_not_end_a_key_that_pods_still_use(world: World) -> None:
    """The second key is made when all pods know the first."""
    await world.settle()
    world.now += KEY_OVERLAP_S
    ask_for_a_new_key(world)
    await pass_after(world, REFRESH_S)
    first = root_secret(world)["data"]["key"]
    ask_for_a_new_key(world)
    await pass_after(world, REFRESH_S)
    assert root_secret(world)["data"]["key"] == first
    await pass_after(world, KEY_OVERLAP_S)
    assert root_secret(world)["data"]["previous"] == first


async def test_a_key_has_a_lifetime(world: World) -> None:
    await world.settle()
    old = root_secret(world)["data"]["key"]
    await pass_after(world, LIFETIME_S - 1)
    assert root_secret(world)["data"]["key"] == old
    await pass_after(world, REFRESH_S)
    assert root_secret(world)["data"]["previous"] == old


async def test_a_note_that_is_no_time_stops_nothing(world: World) -> None:
    await world.settle()
    secret = deepcopy(root_secret(world))
    secret["metadata"]["annotations"][names.KEY_SINCE] = "yesterday"
    world.server.put(SECRETS, secret)
    await pass_after(world, LIFETIME_S)
    assert root_secret(world)["data"]["key"] == secret["data"]["key"]
    assert keys_of_vision(world) == (derived(secret["data"]["key"]),)


async def test_a_key_that_cannot_be_replaced_is_used_on(world: World) -> None:
    """Also by a controller that has just started, which knows no key yet."""
    await world.settle()
    old = root_secret(world)["data"]["key"]
    world.controller.root_key.value = b""
    world.server.script("PATCH", SECRETS.path(ROOT_SECRET), refuses(403, "Forbidden", "no"))
    await pass_after(world, LIFETIME_S)
    assert root_secret(world)["data"]["key"] == old
    assert world.controller.root_key.value == base64.b64decode(old)


async def test_a_key_that_an_admin_exchanges_by_hand_ends_too(world: World) -> None:
    """Nobody has to restart anything, and no running job is harmed."""
    await world.settle()
    old = root_secret(world)["data"]["key"]
    new = base64.b64encode(b"n" * 64).decode()
    world.server.put(SECRETS, {"metadata": METADATA, "data": {"key": new}})
    await pass_after(world, REFRESH_S)
    assert keys_of_vision(world) == (derived(new), derived(old))
    await pass_after(world, LIFETIME_S)
    assert root_secret(world)["data"]["key"] == new, "its age is the admin's affair"
    assert keys_of_vision(world) == (derived(new),)


async def test_a_replica_that_leads_again_keeps_the_key_before_that_another_one_wrote(
    world: World,
) -> None:
    """Another leader has replaced the key twice: the key that this one used last is not the one
    before. Pods whose files have not been updated yet still use that."""
    await world.settle()
    async with started(world.server) as other:
        await pass_after(other, LIFETIME_S)
        await pass_after(other, LIFETIME_S)
        keys = keys_of_vision(other)
        assert len(keys) == 2
        world.now = other.now
    await pass_after(world, REFRESH_S)
    assert keys_of_vision(world) == keys
    # an admin changes the entry and leaves the others, which are from before
    secret = deepcopy(root_secret(world))
    last = secret["data"]["key"]
    secret["data"]["key"] = base64.b64encode(b"n" * 64).decode()
    world.server.put(SECRETS, secret)
    await pass_after(world, REFRESH_S)
    assert keys_of_vision(world) == (derived(secret["data"]["key"]), derived(last))


async def test_a_lost_secret_is_made_again_with_another_key(world: World) -> None:
    await world.settle()
    keys = keys_of_vision(world)
    world.server.remove(SECRETS, ROOT_SECRET)
    await pass_after(world, REFRESH_S - 1)
    assert keys_of_vision(world) == keys
    await pass_after(world, REFRESH_S)
    assert keys_of_vision(world)[1:] == keys
