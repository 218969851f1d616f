"""Health checks and metrics."""

import aiohttp

from cede.kube import health


async def test_it_is_alive_at_once_and_ready_when_the_function_returns_true() -> None:
    ready = False
    async with (
        health.serve(0, lambda: ready, host="127.0.0.1") as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):

        async def status(path: str) -> int:
            async with session.get(path) as response:
                return response.status

        assert (await status("/healthz"), await status("/readyz")) == (200, 503)
        ready = True
        assert await status("/readyz") == 200
        async with session.get("/metrics") as response:
            assert "python_info" in await response.text()
