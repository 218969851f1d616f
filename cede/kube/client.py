"""The verbs of the API server, over the official package's configuration, credentials and TLS."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar, cast

import aiohttp
import msgspec
from aiohttp.http_exceptions import HttpProcessingError
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException

from cede.api.objects import Json, Key, Kind
from cede.kube import decoding
from cede.kube.decoding import WatchEvent, decoder
from cede.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    Unreadable,
)

P = TypeVar("P")
PAGE = 500
REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=30, connect=5)
# the server ends a watch after this long, or up to twice that: not all at once
WATCH_S = 300
# a quiet kind may say nothing for the whole of a watch; that the server is gone, TCP keep-alive
# tells
SILENCE_S = 2 * WATCH_S + 15
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


class Client(Protocol):
    """What the shells need of an API server. Every call raises ApiError or a kind of it."""

    async def list(
        self, kind: Kind, cls: type[P], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> tuple[list[P], str]: ...
    def watch(
        self,
        kind: Kind,
        cls: type[P],
        *,
        version: str,
        initial: bool,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent[P]]: ...
    async def get(self, kind: Kind, cls: type[P], key: Key) -> P: ...
    async def apply(
        self, kind: Kind, key: Key, body: Json, *, force: bool = True, subresource: str = ""
    ) -> Json: ...
    async def patch(
        self, kind: Kind, key: Key, body: Json | Sequence[Json], *, subresource: str = ""
    ) -> Json: ...
    async def create(self, kind: Kind, body: Json, *, namespace: str = "") -> Json: ...
    async def replace(self, kind: Kind, key: Key, body: Json) -> Json: ...
    async def delete(self, kind: Kind, key: Key, *, uid: str = "", version: str = "") -> None: ...


class HttpClient:
    """A Client over one aiohttp session. `manager` is the field manager of everything it writes.

    `renew` reads credentials and CA anew: it is called when the server refuses ours, or we refuse
    the server's.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        configuration: Configuration,
        manager: str,
        renew: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._session = session
        self._configuration = configuration
        self.manager = manager
        self._renew = renew
        self._url = str(configuration.host).rstrip("/")

    async def list(
        self, kind: Kind, cls: type[P], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> tuple[list[P], str]:
        """All objects, page by page, and the version to watch from."""
        decode = decoder(cls)
        items = list[P]()
        query = {"limit": str(PAGE)} | _selectors(labels, fields)
        while True:
            found, version, following = decoding.page(
                await self._send("GET", kind.path(namespace=namespace), query), decode
            )
            items += found
            if not following:
                return items, version
            query["continue"] = following

    async def watch(
        self,
        kind: Kind,
        cls: type[P],
        *,
        version: str,
        initial: bool,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent[P]]:
        """Events since `version`, or with `initial` first every object and a bookmark that says so.
        Ends when the server ends it."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(WATCH_S, 2 * WATCH_S)),  # noqa: S311
        }
        if initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            query["resourceVersion"] = version
        query |= _selectors(labels, fields)
        decode = decoder(cls)
        path = kind.path(namespace=namespace)
        timeout = aiohttp.ClientTimeout(total=None, connect=5, sock_read=SILENCE_S)
        async with self._asked("GET", path, query, timeout=timeout) as response:
            if response.status >= 300:
                raise await self._refusal(response)
            async for line in response.content:
                if line.strip():
                    yield decoding.event(line, decode)

    async def get(self, kind: Kind, cls: type[P], key: Key) -> P:
        return decoder(cls)(await self._send("GET", kind.path(key)))

    async def apply(
        self, kind: Kind, key: Key, body: Json, *, force: bool = True, subresource: str = ""
    ) -> Json:
        """Server-side apply: the object says `body` in the fields that `body` has, and we own
        these."""
        query = {"fieldManager": self.manager, "force": "true" if force else "false"}
        named = {"apiVersion": kind.api_version, "kind": kind.kind} | body
        return await self._write(
            "PATCH", kind.path(key, subresource=subresource), named, query, APPLY
        )

    async def patch(
        self, kind: Kind, key: Key, body: Json | Sequence[Json], *, subresource: str = ""
    ) -> Json:
        """A merge patch (dict) or a JSON patch (list). A `metadata.resourceVersion` in it makes it
        conditional."""
        media = MERGE if isinstance(body, dict) else JSON_PATCH
        return await self._write(
            "PATCH",
            kind.path(key, subresource=subresource),
            body,
            {"fieldManager": self.manager},
            media,
        )

    async def create(self, kind: Kind, body: Json, *, namespace: str = "") -> Json:
        named = {"apiVersion": kind.api_version, "kind": kind.kind} | body
        return await self._write(
            "POST", kind.path(namespace=namespace), named, {"fieldManager": self.manager}
        )

    async def replace(self, kind: Kind, key: Key, body: Json) -> Json:
        """PUT: the whole object; conditional on the resourceVersion it carries."""
        named = {"apiVersion": kind.api_version, "kind": kind.kind} | body
        return await self._write("PUT", kind.path(key), named, {"fieldManager": self.manager})

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", version: str = "") -> None:
        """Gone or going afterwards; with `uid` or `version` only that very object."""
        conditions = {k: v for k, v in (("uid", uid), ("resourceVersion", version)) if v}
        body = {"propagationPolicy": "Background"} | (
            {"preconditions": conditions} if conditions else {}
        )
        await self._write("DELETE", kind.path(key), body)

    async def _write(
        self,
        method: str,
        path: str,
        body: Any,
        query: dict[str, str] | None = None,
        media: str = "application/json",
    ) -> Json:
        return cast(
            Json,
            msgspec.json.decode(
                await self._send(method, path, query, msgspec.json.encode(body), media)
            ),
        )

    async def _send(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
        media: str = "",
    ) -> bytes:
        try:
            return await self._send_once(method, path, query, body, media)
        except Unauthorized:
            # the credentials have been read anew
            return await self._send_once(method, path, query, body, media)

    async def _send_once(
        self, method: str, path: str, query: dict[str, str] | None, body: bytes | None, media: str
    ) -> bytes:
        headers = {"Content-Type": media} if media else {}
        async with self._asked(
            method, path, query, headers=headers, data=body, timeout=REQUEST_TIMEOUT
        ) as response:
            if response.status >= 300:
                raise await self._refusal(response)
            return await response.read()

    @asynccontextmanager
    async def _asked(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None,
        *,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response, with our credentials, redirects refused. What breaks under way is
        Unreachable."""
        try:
            headers = (headers or {}) | await self._credentials()
            options: Json = {"params": query, "headers": headers, "allow_redirects": False, **more}
            options["server_hostname"] = self._configuration.tls_server_name
            async with self._session.request(method, self._url + path, **options) as response:
                yield response
        except (
            aiohttp.ClientError,
            HttpProcessingError,
            TimeoutError,
            OSError,
            ValueError,
            ConfigException,
        ) as broken:
            if isinstance(broken, aiohttp.ClientSSLError):
                await self._renewed()
            raise Unreachable(f"{method} {path}: {broken or type(broken).__name__}") from broken

    async def _credentials(self) -> dict[str, str]:
        """Asked for on every request: tokens are rotated, and the official configuration reads the
        file again once a minute."""
        token = await self._configuration.get_api_key_with_prefix(
            "BearerToken", alias="authorization"
        )
        return {"Authorization": token} if token else {}

    async def _refusal(self, response: aiohttp.ClientResponse) -> ApiError:
        """What the server answered, as an exception. After a 401 the credentials are read anew, for
        the next request."""
        content = await response.read()
        if response.status == 401:
            await self._renewed()
        return decoding.refusal(
            response.status, content, response.reason or "", response.headers.get("Retry-After", "")
        )

    async def _renewed(self) -> None:
        # caught in the middle of a rotation: the old ones stand
        with suppress(ConfigException, OSError, ValueError):
            if self._renew:
                await self._renew()


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return ({"labelSelector": labels} if labels else {}) | (
        {"fieldSelector": fields} if fields else {}
    )


__all__ = [
    "AlreadyExists",
    "ApiError",
    "Client",
    "Conflict",
    "Forbidden",
    "Gone",
    "HttpClient",
    "Invalid",
    "NotFound",
    "TooManyRequests",
    "Unauthorized",
    "Unreachable",
    "Unreadable",
    "WatchEvent",
]
