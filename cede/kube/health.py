"""Serves health checks and metrics on a port of its own."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import generate_latest


@asynccontextmanager
async def serve(
    port: int, ready: Callable[[], bool], host: str = "", routes: Iterable[web.RouteDef] = ()
) -> AsyncIterator[int]:
    """Serves /healthz, /readyz, /metrics and `routes` while the context lasts; yields the port.

    /readyz is 200 while `ready` returns True, and 503 otherwise. Port 0 selects a free port.
    """

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readiness(_: web.Request) -> web.Response:
        return web.Response(text="ok") if ready() else web.Response(status=503, text="not ready")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    app = web.Application()
    app.add_routes(
        [web.get("/healthz", alive), web.get("/readyz", readiness), web.get("/metrics", metrics)]
    )
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
