"""A gateway before the page, as the usual ones are by default: it ends TLS, takes a prefix off the
path, says for whom it asks, and collects an answer unless it is told not to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from tests.harness.certificates import client_context, fresh_certificates, serving_context

PREFIX = "/cede"
BUFFER_BYTES = 1 << 16
FORWARDED = {
    "X-Forwarded-For": "192.0.2.7",
    "X-Forwarded-Host": "cede.example",
    "X-Forwarded-Proto": "https",
}
OF_A_CONNECTION = ("Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length")


class Gateway:
    """Asks the server at `upstream`; with `host`, in place of the host of the client."""

    def __init__(self, session: aiohttp.ClientSession, upstream: str, host: str) -> None:
        self.session = session
        self.upstream = upstream.rstrip("/")
        self.host = host

    async def answer(self, request: web.Request) -> web.StreamResponse:
        headers = {**dict(request.headers), **FORWARDED}
        headers["Host"] = self.host or headers["Host"]
        async with self.session.request(
            request.method,
            self.upstream + request.raw_path.removeprefix(PREFIX),
            headers=headers,
            data=await request.read(),
            allow_redirects=False,
        ) as given:
            return await pass_on(request, given)


async def pass_on(request: web.Request, given: aiohttp.ClientResponse) -> web.StreamResponse:
    headers = given.headers.copy()
    for name in OF_A_CONNECTION:
        headers.pop(name, None)
    response = web.StreamResponse(status=given.status, headers=headers)
    await response.prepare(request)
    collects = headers.get("X-Accel-Buffering") != "no"
    collected = b""
    async for part in given.content.iter_any():
        collected += part
        if not collects or len(collected) >= BUFFER_BYTES:
            await response.write(collected)
            collected = b""
    await response.write(collected)
    return response


@asynccontextmanager
async def gateway(upstream: str, host: str = "") -> AsyncIterator[tuple[str, aiohttp.TCPConnector]]:
    """Its address, and what connects a client to it."""
    certificates = fresh_certificates()
    assert certificates.ca
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        app = web.Application()
        app.router.add_route("*", PREFIX + "/{path:.*}", Gateway(session, upstream, host).answer)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        try:
            tls = serving_context(certificates)
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
            trust = client_context(certificates.ca.certificate)
            # the certificate has a name, and the address none
            trust.check_hostname = False
            url = f"https://127.0.0.1:{runner.addresses[0][1]}{PREFIX}/"
            yield url, aiohttp.TCPConnector(ssl=trust)
        finally:
            await runner.cleanup()
