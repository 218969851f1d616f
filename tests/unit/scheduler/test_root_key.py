"""When the root key is read, and what happens when it is lost."""

import base64
from collections.abc import AsyncIterator

import pytest

from cede.api.objects import SECRETS
from cede.kube.errors import NotFound, Unreadable
from scheduler.root_key import DOUBT_REFRESH_S, REFRESH_S, ROOT_SECRET, RootKey
from tests.fakes.api_server import ApiServer


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def root_key(server: ApiServer, clock: Clock) -> AsyncIterator[RootKey]:
    async with server.client() as client:
        yield RootKey(client, clock)


def put_key(server: ApiServer, key: bytes) -> None:
    namespace, name = ROOT_SECRET
    data = {"key": base64.b64encode(key).decode()}
    server.put(SECRETS, {"metadata": {"namespace": namespace, "name": name}, "data": data})


async def test_a_changed_key_is_read_soon_after_a_runtime_refused_the_old_one(
    server: ApiServer, root_key: RootKey, clock: Clock
) -> None:
    put_key(server, b"old")
    await root_key.refresh()
    put_key(server, b"new")
    clock.now += DOUBT_REFRESH_S
    await root_key.refresh()
    assert b"new" not in root_key.values
    root_key.doubt()
    await root_key.refresh()
    assert root_key.values == (b"new", b"old")


async def test_a_changed_key_is_read_after_a_while_in_any_case(
    server: ApiServer, root_key: RootKey, clock: Clock
) -> None:
    put_key(server, b"old")
    await root_key.refresh()
    put_key(server, b"new")
    clock.now += REFRESH_S
    await root_key.refresh()
    assert root_key.values == (b"new", b"old")


async def test_a_key_that_is_lost_later_is_kept(
    server: ApiServer, root_key: RootKey, clock: Clock
) -> None:
    put_key(server, b"old")
    await root_key.refresh()
    server.remove(SECRETS, ROOT_SECRET)
    clock.now += REFRESH_S
    await root_key.refresh()
    assert root_key.values == (b"old",)


async def test_without_a_key_every_pass_fails(server: ApiServer, root_key: RootKey) -> None:
    with pytest.raises(NotFound):
        await root_key.refresh()
    put_key(server, b"")
    with pytest.raises(Unreadable, match="no entry key"):
        await root_key.refresh()


async def test_the_key_before_is_known_to_a_scheduler_that_starts(
    server: ApiServer, root_key: RootKey
) -> None:
    namespace, name = ROOT_SECRET
    data = {
        "key": base64.b64encode(b"new").decode(),
        "previous": base64.b64encode(b"old").decode(),
    }
    server.put(SECRETS, {"metadata": {"namespace": namespace, "name": name}, "data": data})
    await root_key.refresh()
    assert root_key.values == (b"new", b"old")
