"""A guard is deleted, whatever of it is there."""

import pytest

from cede.api import guards
from cede.kube.guards import delete_guard
from tests.fakes.api_server import ApiServer


@pytest.mark.parametrize("missing", range(3))
async def test_what_is_there_of_a_guard_is_deleted(server: ApiServer, missing: int) -> None:
    objects = guards.objects("c-1")
    for index, (kind, (namespace, name)) in enumerate(objects):
        if index != missing:
            server.put(kind, {"metadata": {"namespace": namespace, "name": name}, "spec": {}})
    async with server.client() as client:
        await delete_guard(client, "c-1")
    assert not any(server.get(kind, key) for kind, key in objects)
