"""Lets in whoever has the token that the command has made, on this machine only."""

import asyncio
import hmac
import secrets
from collections.abc import Iterable

from aiohttp import hdrs, web

from cede.dashboard.server import DATA, LOOPBACK
from cede.dashboard.visitor import Visitor


class OwnAccess:
    """The page of one person. `opened` is set once somebody has shown the token."""

    def __init__(self, visitor: Visitor, token: str = "") -> None:
        self._visitor = visitor
        self._token = token or secrets.token_urlsafe(32)
        self._hosts: tuple[str, ...] = ()
        self.opened = asyncio.Event()

    def listens(self, port: int) -> str:
        """The address with the token in its fragment, which no server and no log sees."""
        self._hosts = (f"{LOOPBACK}:{port}", f"localhost:{port}")
        return f"http://{LOOPBACK}:{port}/#token={self._token}"

    def routes(self) -> Iterable[web.RouteDef]:
        return ()

    async def close(self) -> None:
        await self._visitor.feed.close()

    def check(self, request: web.Request) -> None:
        # a name of somebody else that resolves to this machine (DNS rebinding)
        if request.host not in self._hosts:
            raise web.HTTPMisdirectedRequest(text=f"this is http://{self._hosts[0]}/\n")
        if request.path.startswith(DATA):
            self._check_token(request)

    async def visitor(self, request: web.Request) -> Visitor:
        self._check_token(request)
        self.opened.set()
        return self._visitor

    def _check_token(self, request: web.Request) -> None:
        given = request.headers.get(hdrs.AUTHORIZATION, "")
        # bytes that are no UTF-8 are surrogates here
        sent = given.encode(errors="surrogateescape")
        if not hmac.compare_digest(sent, f"Bearer {self._token}".encode()):
            raise web.HTTPUnauthorized(text="open the address that `cede dashboard` printed\n")
