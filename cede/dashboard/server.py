"""The web server of the page: its files, the facts, and the stream of changes."""

import hmac
import logging
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import hdrs, web

from cede.api.objects import Key
from cede.dashboard.feed import Feed
from cede.dashboard.static_files import StaticFiles
from cede.report.explanation import Explanation

log = logging.getLogger(__name__)
Explain = Callable[[Key], Awaitable[Explanation]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
LOOPBACK = "127.0.0.1"
DATA = "/api/"
"""What begins so needs the token."""
MAX_STREAMS = 32
MAX_DIGITS = 18
"""Of a version."""
HEADERS = {
    # only what this server sends; no inline script or style, no frame, no form
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Server:
    """Answers on one port of this machine. `token` is asked for with every request for facts."""

    def __init__(self, feed: Feed, explain: Explain, token: str) -> None:
        self._feed = feed
        self._explain = explain
        self._token = token
        self._port = 0
        self._streams = 0
        self._files = StaticFiles()

    async def start(self, port: int) -> tuple[web.AppRunner, str]:
        """The runner, to be cleaned up at the end, and the address; port 0: a free one. Raises
        OSError when the port is not free."""
        app = web.Application(middlewares=[self._guard])
        app.add_routes(
            [
                web.get("/", self._files.answer),
                web.get("/{name}", self._files.answer),
                web.get(f"{DATA}page", self._page),
                web.get(f"{DATA}changes", self._changes),
                web.get(f"{DATA}explain/{{namespace}}/{{name}}", self._explanation),
            ]
        )
        app.on_shutdown.append(self._close)
        # a stream whose reader is gone ends at once
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, LOOPBACK, port).start()
        except OSError:
            await runner.cleanup()
            raise
        self._port = runner.addresses[0][1]
        return runner, f"http://{LOOPBACK}:{self._port}/#token={self._token}"

    async def _close(self, _: web.Application) -> None:
        await self._feed.close()

    # --- who may ask ------------------------------------------------------------------------------
    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._check(request)
            response = await handler(request)
        except web.HTTPException as error:
            error.headers.update(HEADERS)
            raise
        # nothing that somebody sends, or that a cluster contains, ends in a bare answer
        except Exception as error:
            log.exception("request not answered")
            raise web.HTTPInternalServerError(
                text=f"this cannot be answered ({type(error).__name__}: {error})\n", headers=HEADERS
            ) from error
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    def _check(self, request: web.Request) -> None:
        """Raises what refuses the request."""
        # a name of somebody else that resolves to this machine (DNS rebinding)
        if request.host not in (f"{LOOPBACK}:{self._port}", f"localhost:{self._port}"):
            raise web.HTTPMisdirectedRequest(text=f"this is http://{LOOPBACK}:{self._port}/\n")
        if not request.path.startswith(DATA):
            return
        given = request.headers.get(hdrs.AUTHORIZATION, "")
        # bytes that are no UTF-8 are surrogates here
        sent = given.encode(errors="surrogateescape")
        if not hmac.compare_digest(sent, f"Bearer {self._token}".encode()):
            raise web.HTTPUnauthorized(text="open the address that `cede dashboard` printed\n")

    # --- answers ----------------------------------------------------------------------------------
    async def _page(self, _: web.Request) -> web.Response:
        response = web.Response(body=self._feed.whole(), content_type="application/json")
        response.enable_compression()
        return response

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        text = request.query.get("after", "")
        if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
            raise web.HTTPBadRequest(text="`after` is not a version: it should be a number\n")
        if self._streams >= MAX_STREAMS:
            raise web.HTTPServiceUnavailable(
                text=f"{MAX_STREAMS} pages are open: close those that nobody reads\n"
            )
        response = web.StreamResponse(headers=HEADERS)
        response.content_type = "text/event-stream"
        await response.prepare(request)
        self._streams += 1
        try:
            async for message in self._feed.after(int(text)):
                await response.write(message)
        except ConnectionResetError:
            # the page was closed
            pass
        finally:
            self._streams -= 1
        return response

    async def _explanation(self, request: web.Request) -> web.Response:
        key = request.match_info["namespace"], request.match_info["name"]
        explanation = await self._explain(key)
        return web.Response(body=msgspec.json.encode(explanation), content_type="application/json")
