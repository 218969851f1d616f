"""Which Kubernetes an API server is, as it tells every user."""

from aiohttp import web

from cede.api.support import FREEZING_API, Kubernetes
from cede.kube.server_version import read_kubernetes
from tests.fakes.api_server import ApiServer


async def test_a_server_without_the_kinds_of_a_gate_has_no_gangs() -> None:
    async with ApiServer() as server, server.client() as client:
        assert await read_kubernetes(client) == Kubernetes("v1.36.0", has_gangs=False)


async def test_a_server_with_them_has() -> None:
    async with ApiServer() as server, server.client() as client:

        async def served(_: web.Request) -> web.Response:
            return web.json_response({"resources": []})

        server.script("GET", FREEZING_API, served)
        assert await read_kubernetes(client) == Kubernetes("v1.36.0", has_gangs=True)
