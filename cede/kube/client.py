"""The verbs of the API server over HTTP."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeVar, cast

import aiohttp
import msgspec
from aiohttp.http_exceptions import HttpProcessingError
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException

from cede.api.objects import Json, Key, Kind
from cede.kube import decoding
from cede.kube.decoding import WatchEvent, decoder
from cede.kube.encoding import APPLY_PATCH, patch_type, selectors, with_type
from cede.kube.errors import ApiError, Unauthorized, Unreachable, Unreadable
from cede.kube.long_responses import Pages, PageTooLarge, read_lines

P = TypeVar("P")
REQUEST_S = 30.0
# Without `total`, which may swallow a cancellation that comes in the same moment (aiohttp issue
# 5979): asyncio.timeout does not.
REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=5)
# the server ends a watch after this time, or up to twice as much: not all at once
WATCH_DURATION_S = 300
# A server sends a bookmark once a minute. A watch that sends nothing for this time is mute: what it
# should have sent may be lost.
MUTE_S = 150.0
WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=5, sock_read=MUTE_S)


class Client(Protocol):
    """What the controllers need of an API server. Every call may raise ApiError."""

    async def list(
        self,
        kind: Kind,
        cls: type[P],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        unreadable: list[Unreadable] | None = None,
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
    async def describe(self, path: str) -> Json: ...
    async def time(self) -> float: ...
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
    """A Client over one aiohttp session. `manager` is the field manager of all its writes.

    `renew` reads the credentials and the CA again. It is called when the server does not accept
    our credentials, and when we do not trust the server's certificate.
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

    # --- reading ----------------------------------------------------------------------------------
    async def list(
        self,
        kind: Kind,
        cls: type[P],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        unreadable: list[Unreadable] | None = None,
    ) -> tuple[list[P], str]:
        """All objects, and the version from which to watch them. Reads page by page.

        Objects that cannot be read are added to `unreadable`; without it, the first is raised.
        """
        decode = decoder(cls, kind.kind)
        objects = list[P]()
        path = kind.path(namespace=namespace)
        query = selectors(labels, fields)
        pages = Pages()
        while True:
            query["limit"] = str(pages.limit)
            try:
                content = await self._send("GET", path, query, read=pages.read)
            except PageTooLarge:
                continue
            page, version, next_page = decoding.page(content, decode, unreadable)
            objects += page
            if not next_page:
                return objects, version
            query["continue"] = next_page

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
        """The events after `version`, until the server ends the watch.

        With `initial`, first all present objects, and then a bookmark with `initial_end`.
        """
        duration_s = random.randint(WATCH_DURATION_S, 2 * WATCH_DURATION_S)  # noqa: S311
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(duration_s)}
        if initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            query["resourceVersion"] = version
        query |= selectors(labels, fields)
        decode = decoder(cls, kind.kind)
        path = kind.path(namespace=namespace)
        async with self._request("GET", path, query, WATCH_TIMEOUT) as response:
            if response.status >= 300:
                raise await self._refusal(response)
            async for line in read_lines(response):
                yield decoding.event(line, decode)

    async def get(self, kind: Kind, cls: type[P], key: Key) -> P:
        return decoder(cls, kind.kind)(await self._send("GET", kind.path(key)))

    async def describe(self, path: str) -> Json:
        """What the server tells everybody about itself: `/version`, `/apis/<group>/<version>`."""
        return cast(Json, msgspec.json.decode(await self._send("GET", path)))

    async def time(self) -> float:
        """The clock of the server, in Unix seconds: every answer has it. Raises ApiError."""
        async with self._request("GET", "/version", None) as response:
            return parsedate_to_datetime(response.headers.get("Date", "")).timestamp()

    # --- writing ----------------------------------------------------------------------------------
    async def apply(
        self, kind: Kind, key: Key, body: Json, *, force: bool = True, subresource: str = ""
    ) -> Json:
        """Server-side apply: the fields in `body` have these values afterwards, and we own them."""
        query = {"fieldManager": self.manager, "force": "true" if force else "false"}
        path = kind.path(key, subresource=subresource)
        return await self._write("PATCH", path, with_type(kind, body), query, APPLY_PATCH)

    async def patch(
        self, kind: Kind, key: Key, body: Json | Sequence[Json], *, subresource: str = ""
    ) -> Json:
        """A merge patch (dict) or a JSON patch (list).

        With `metadata.resourceVersion`, it raises Conflict if the object has changed since.
        """
        path = kind.path(key, subresource=subresource)
        query = {"fieldManager": self.manager}
        return await self._write("PATCH", path, body, query, patch_type(body))

    async def create(self, kind: Kind, body: Json, *, namespace: str = "") -> Json:
        path = kind.path(namespace=namespace)
        query = {"fieldManager": self.manager}
        return await self._write("POST", path, with_type(kind, body), query)

    async def replace(self, kind: Kind, key: Key, body: Json) -> Json:
        """PUT: replaces the whole object, if it still has the resourceVersion in `body`."""
        query = {"fieldManager": self.manager}
        return await self._write("PUT", kind.path(key), with_type(kind, body), query)

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", version: str = "") -> None:
        """The object is deleted, or will be once its finalizers are removed.

        With `uid` or `version`, it raises Conflict if the object has another one.
        """
        body: Json = {"propagationPolicy": "Background"}
        preconditions = {"uid": uid, "resourceVersion": version}
        if uid or version:
            body["preconditions"] = {name: value for name, value in preconditions.items() if value}
        await self._write("DELETE", kind.path(key), body)

    # --- requests ---------------------------------------------------------------------------------
    async def _write(
        self,
        method: str,
        path: str,
        body: Any,
        query: dict[str, str] | None = None,
        media: str = "application/json",
    ) -> Json:
        content = await self._send(method, path, query, msgspec.json.encode(body), media)
        return cast(Json, msgspec.json.decode(content))

    async def _send(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
        media: str = "",
        read: Callable[[aiohttp.ClientResponse], Awaitable[bytes]] = aiohttp.ClientResponse.read,
    ) -> bytes:
        async def send() -> bytes:
            headers = {"Content-Type": media} if media else {}
            async with self._request(method, path, query, headers=headers, data=body) as response:
                if response.status >= 300:
                    raise await self._refusal(response)
                return await read(response)

        try:
            return await send()
        except Unauthorized:
            # the credentials have been read again
            return await send()

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None,
        limits: aiohttp.ClientTimeout = REQUEST_TIMEOUT,
        **options: Any,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response to a request with our credentials; redirects are not followed.

        Raises Unreachable when it fails or REQUEST_S are over, also while the response is read.
        """
        try:
            options["headers"] = options.get("headers", {}) | await self._credentials()
            options["server_hostname"] = self._configuration.tls_server_name
            options |= {"params": query, "timeout": limits, "allow_redirects": False}
            async with (
                asyncio.timeout(None if limits is WATCH_TIMEOUT else REQUEST_S),
                self._session.request(method, self._url + path, **options) as response,
            ):
                yield response
        except (
            aiohttp.ClientError,
            HttpProcessingError,
            TimeoutError,
            OSError,
            ValueError,
            ConfigException,
        ) as error:
            if isinstance(error, aiohttp.ClientSSLError):
                await self._renew_credentials()
            raise Unreachable(f"{method} {path}: {str(error) or type(error).__name__}") from error

    async def _credentials(self) -> dict[str, str]:
        """The Authorization header.

        It is read for every request because tokens are rotated; the kubernetes package reads the
        file again once a minute.
        """
        token = await self._configuration.get_api_key_with_prefix(
            "BearerToken", alias="authorization"
        )
        return {"Authorization": token} if token else {}

    async def _refusal(self, response: aiohttp.ClientResponse) -> ApiError:
        """The server's refusal as an exception. After a 401, the credentials are read again."""
        content = await response.read()
        if response.status == 401:
            await self._renew_credentials()
        retry_after = response.headers.get("Retry-After", "")
        return decoding.refusal(response.status, content, response.reason or "", retry_after)

    async def _renew_credentials(self) -> None:
        # files that are being rotated may be incomplete: then the old credentials stay
        with suppress(ConfigException, OSError, ValueError):
            if self._renew:
                await self._renew()
