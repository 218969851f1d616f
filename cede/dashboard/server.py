"""The web server of the page: its files, the facts, the stream of changes, and questions."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import msgspec
from aiohttp import web

from cede.dashboard.metrics import STREAMS, TOO_MANY, Handler, Limit, count_requests
from cede.dashboard.places import Full, Places
from cede.dashboard.questions import BadQuestion, read_question
from cede.dashboard.static_files import StaticFiles
from cede.dashboard.visitor import Access, Visitor

log = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"
DATA = "/api/"
"""What begins so is for visitors only."""
MAX_STREAMS, MAX_STREAMS_OF_PERSON = 256, 16
MAX_PAGES, MAX_PAGES_OF_PERSON = 64, 8
"""Being sent: one may have megabytes, which are in memory until they are read."""
MAX_QUESTIONS, MAX_QUESTIONS_OF_PERSON = 8, 2
"""Of each sort: an answer reads up to all jobs of the cluster."""
SEND_S = 30.0
"""A reader that takes nothing for so long is gone."""
MAX_DIGITS = 18
"""Of a version."""
MAX_BODY_BYTES = 1 << 18
MAX_HEADER_BYTES = 1 << 14
"""A token that names many groups is long."""
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

STREAM_HEADERS = HEADERS | {
    # a gateway that compressed the stream would hold events back
    "Cache-Control": "no-store, no-transform",
    # nginx, and what is made of it, collects an answer before it passes it on
    "X-Accel-Buffering": "no",
}


class Server:
    """Answers on one port those whom `access` lets in."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._files = StaticFiles()
        self._streams = Places(
            *(MAX_STREAMS, MAX_STREAMS_OF_PERSON),
            *("pages are open", "close those that nobody reads"),
        )
        self._pages = Places(
            *(MAX_PAGES, MAX_PAGES_OF_PERSON),
            *("pages are being sent", "try again in a moment"),
        )
        self._explanations, self._predictions = _questions(), _questions()

    async def start(
        self, port: int, host: str = LOOPBACK, tls: ssl.SSLContext | None = None
    ) -> tuple[web.AppRunner, int]:
        """The runner, to be cleaned up at the end, and the port; port 0: a free one. Raises
        OSError when the port is not free."""
        app = web.Application(
            middlewares=[count_requests, self._guard], client_max_size=MAX_BODY_BYTES
        )
        app.add_routes(
            [
                web.get(f"{DATA}me", self._me),
                web.get(f"{DATA}page", self._page),
                web.get(f"{DATA}changes", self._changes),
                web.get(f"{DATA}history", self._history),
                web.get(f"{DATA}explain/{{namespace}}/{{name}}", self._explanation),
                web.post(f"{DATA}whatif", self._prediction),
                *self._access.routes(),
                web.get("/", self._files.answer),
                web.get("/{name}", self._files.answer),
            ]
        )
        app.on_shutdown.append(self._close)
        # a stream whose reader is gone ends at once
        runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=1.0,
            handler_cancellation=True,
            max_field_size=MAX_HEADER_BYTES,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port, ssl_context=tls).start()
        except OSError:
            await runner.cleanup()
            raise
        return runner, runner.addresses[0][1]

    async def _close(self, _: web.Application) -> None:
        await self._access.close()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._access.check(request)
            response = await handler(request)
        except web.HTTPException as error:
            _harden(error)
            raise
        # nothing that somebody sends, or that a cluster contains, ends in a bare answer
        except Exception as error:
            log.exception("request not answered")
            raise web.HTTPInternalServerError(
                text=f"this cannot be answered ({type(error).__name__}: {error})\n", headers=HEADERS
            ) from error
        if not response.prepared:
            _harden(response)
        return response

    # --- answers ----------------------------------------------------------------------------------
    async def _me(self, request: web.Request) -> web.Response:
        visitor = await self._access.visitor(request)
        return _json({"user": visitor.user, "signedIn": visitor.signed_in})

    async def _page(self, request: web.Request) -> web.Response:
        visitor = await self._access.visitor(request)
        return await self._send(request, visitor, visitor.feed.whole())

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._access.visitor(request)
        text = request.query.get("after", "")
        if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
            raise web.HTTPBadRequest(text="`after` is not a version: it should be a number\n")
        response = web.StreamResponse(headers=STREAM_HEADERS)
        response.content_type = "text/event-stream"
        # the page was closed, or its reader is not let in any more
        is_over = suppress(ConnectionResetError, web.HTTPException)
        with (
            _place(self._streams, Limit.STREAMS, visitor),
            STREAMS.track_inprogress(),
            is_over,
        ):
            await response.prepare(request)
            async for message in visitor.feed.after(int(text)):
                present = await self._access.visitor(request)
                if present.feed is not visitor.feed:
                    # other rights: the reader connects again, and reads all again
                    break
                async with _in_time(request):
                    await response.write(message)
        return response

    async def _explanation(self, request: web.Request) -> web.Response:
        visitor = await self._access.visitor(request)
        key = request.match_info["namespace"], request.match_info["name"]
        with _place(self._explanations, Limit.EXPLANATIONS, visitor):
            return _json(await visitor.explain(key))

    async def _prediction(self, request: web.Request) -> web.Response:
        visitor = await self._access.visitor(request)
        try:
            question = read_question(await request.read())
        except BadQuestion as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        with _place(self._predictions, Limit.PREDICTIONS, visitor):
            return _json(await visitor.predict(question))

    async def _history(self, request: web.Request) -> web.Response:
        visitor = await self._access.visitor(request)
        return await self._send(request, visitor, msgspec.json.encode(await visitor.history()))

    async def _send(self, request: web.Request, visitor: Visitor, content: bytes) -> web.Response:
        """What may be megabytes, compressed."""
        with _place(self._pages, Limit.PAGES, visitor):
            response = web.Response(body=content, content_type="application/json", headers=HEADERS)
            response.enable_compression()
            with suppress(ConnectionResetError):
                async with _in_time(request):
                    await response.prepare(request)
                    await response.write_eof()
            return response


def _questions() -> Places:
    return Places(
        *(MAX_QUESTIONS, MAX_QUESTIONS_OF_PERSON),
        *("questions are being answered", "try again in a moment"),
    )


@contextmanager
def _place(places: Places, limit: Limit, visitor: Visitor) -> Iterator[None]:
    """Raises HTTPServiceUnavailable."""
    try:
        with places.take(visitor.user):
            yield
    except Full as error:
        TOO_MANY.labels(limit).inc()
        raise web.HTTPServiceUnavailable(text=f"{error}\n") from error


@asynccontextmanager
async def _in_time(request: web.Request) -> AsyncIterator[None]:
    """Raises ConnectionResetError when the reader takes nothing any more. What was sent to it is
    forgotten at once: it would stay in memory for as long as the reader likes."""
    try:
        async with asyncio.timeout(SEND_S):
            yield
    except TimeoutError as error:
        if request.transport:
            request.transport.abort()
        raise ConnectionResetError from error


def _harden(response: web.StreamResponse) -> None:
    """A page of its own may be stricter or laxer in what it sets itself."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


def _json(content: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(content), content_type="application/json")
