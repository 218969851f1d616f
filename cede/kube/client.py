"""The verbs of the API server, over the official package's configuration, credentials and TLS."""

import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

import aiohttp
import msgspec
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.incluster_config import load_incluster_config
from kubernetes.aio.config.kube_config import load_kube_config
from pydantic import BaseModel

from cede.api.objects import Json, Key, Kind
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
    error,
)

P = TypeVar("P")
PAGE = 500
LINE_LIMIT = 1 << 21  # bytes; aiohttp's own default fails above 128 KiB a line
TIMEOUT = aiohttp.ClientTimeout(total=30, connect=5)
WATCH_S = 300  # the server ends a watch after this long
MERGE, JSON_PATCH, APPLY = "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"
Decode = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[P]):
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK. A bookmark has no object; `initial_end` marks the one after the first list."""

    type: str
    object: P | None
    version: str
    initial_end: bool = False


class Client(Protocol):
    """What the shells need of an API server. Every call raises ApiError or a kind of it."""

    async def list(self, kind: Kind, cls: type[P], *, namespace: str = "", labels: str = "", fields: str = "") -> tuple[list[P], str]: ...
    def watch(
        self, kind: Kind, cls: type[P], *, version: str, initial: bool, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent[P]]: ...
    async def get(self, kind: Kind, cls: type[P], key: Key) -> P: ...
    async def apply(self, kind: Kind, key: Key, body: Json, *, force: bool = True, subresource: str = "") -> Json: ...
    async def patch(self, kind: Kind, key: Key, body: Json | Sequence[Json], *, subresource: str = "") -> Json: ...
    async def create(self, kind: Kind, body: Json, *, namespace: str = "") -> Json: ...
    async def replace(self, kind: Kind, key: Key, body: Json) -> Json: ...
    async def delete(self, kind: Kind, key: Key, *, uid: str = "", version: str = "") -> None: ...


def decoder(cls: type[P]) -> Callable[[bytes | msgspec.Raw], P]:
    """Bytes to `cls`: a frozen class of cede.api by msgspec, one of our own objects by pydantic, `dict` as it is."""
    if issubclass(cls, BaseModel):
        return lambda raw: cast(P, cls.model_validate_json(bytes(raw)))
    found = msgspec.json.Decoder(cls, strict=False)
    return lambda raw: found.decode(raw)


class _Version(msgspec.Struct):
    resourceVersion: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    annotations: dict[str, str] = {}


class _List(msgspec.Struct):
    metadata: _Version
    items: list[msgspec.Raw] = []


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Head(msgspec.Struct):
    metadata: _Version = msgspec.field(default_factory=_Version)


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    code: int = 0


class HttpClient:
    """A Client over one aiohttp session. `manager` is the field manager of everything it writes."""

    def __init__(self, session: aiohttp.ClientSession, configuration: Configuration, manager: str) -> None:
        self._session, self._configuration, self.manager = session, configuration, manager
        self._url = str(configuration.host).rstrip("/")

    async def list(self, kind: Kind, cls: type[P], *, namespace: str = "", labels: str = "", fields: str = "") -> tuple[list[P], str]:
        """All objects, page by page, and the version to watch from."""
        decode, items = decoder(cls), list[P]()
        query = {"limit": str(PAGE)} | _selectors(labels, fields)
        while True:
            page = msgspec.json.decode(await self._send("GET", kind.path(namespace=namespace), query), type=_List)
            items += [decode(raw) for raw in page.items]
            if not page.metadata.continue_:
                return items, page.metadata.resourceVersion
            query["continue"] = page.metadata.continue_

    async def watch(
        self, kind: Kind, cls: type[P], *, version: str, initial: bool, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent[P]]:
        """Events since `version`, or with `initial` first every object and a bookmark that says so. Ends when the server ends it."""
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_S)}
        if initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            query["resourceVersion"] = version
        query |= _selectors(labels, fields)
        decode = decoder(cls)
        timeout = aiohttp.ClientTimeout(total=None, connect=5, sock_read=WATCH_S + 15)
        try:
            headers, path = await self._headers(), kind.path(namespace=namespace)
            async with self._request("GET", path, query, timeout=timeout, headers=headers) as response:
                if response.status >= 400:
                    raise _refusal(response, await response.read())
                async for line in response.content:
                    if line.strip():
                        yield _event(msgspec.json.decode(line, type=_Event), decode)
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, ValueError) as broken:
            raise Unreachable(f"watch of {kind.plural}: {broken or type(broken).__name__}") from broken

    async def get(self, kind: Kind, cls: type[P], key: Key) -> P:
        return decoder(cls)(await self._send("GET", kind.path(key)))

    async def apply(self, kind: Kind, key: Key, body: Json, *, force: bool = True, subresource: str = "") -> Json:
        """Server-side apply: the object says `body` in the fields that `body` has, and we own these."""
        query = {"fieldManager": self.manager, "force": "true" if force else "false"}
        named = {"apiVersion": kind.api_version, "kind": kind.kind} | body
        return await self._write("PATCH", kind.path(key, subresource=subresource), named, query, APPLY)

    async def patch(self, kind: Kind, key: Key, body: Json | Sequence[Json], *, subresource: str = "") -> Json:
        """A merge patch (dict) or a JSON patch (list). A `metadata.resourceVersion` in it makes it conditional."""
        media = MERGE if isinstance(body, dict) else JSON_PATCH
        return await self._write("PATCH", kind.path(key, subresource=subresource), body, {"fieldManager": self.manager}, media)

    async def create(self, kind: Kind, body: Json, *, namespace: str = "") -> Json:
        named = {"apiVersion": kind.api_version, "kind": kind.kind} | body
        return await self._write("POST", kind.path(namespace=namespace), named, {"fieldManager": self.manager})

    async def replace(self, kind: Kind, key: Key, body: Json) -> Json:
        """PUT: the whole object; conditional on the resourceVersion it carries."""
        named = {"apiVersion": kind.api_version, "kind": kind.kind} | body
        return await self._write("PUT", kind.path(key), named, {"fieldManager": self.manager})

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", version: str = "") -> None:
        """Gone or going afterwards; with `uid` or `version` only that very object."""
        conditions = {k: v for k, v in (("uid", uid), ("resourceVersion", version)) if v}
        body = {"propagationPolicy": "Background"} | ({"preconditions": conditions} if conditions else {})
        await self._write("DELETE", kind.path(key), body)

    async def _write(self, method: str, path: str, body: Any, query: dict[str, str] | None = None, media: str = "application/json") -> Json:
        return cast(Json, msgspec.json.decode(await self._send(method, path, query, msgspec.json.encode(body), media)))

    async def _send(self, method: str, path: str, query: dict[str, str] | None = None, body: bytes | None = None, media: str = "") -> bytes:
        for again in (True, False):
            headers = await self._headers(fresh=not again) | ({"Content-Type": media} if media else {})
            try:
                async with self._request(method, path, query, data=body, headers=headers, timeout=TIMEOUT) as response:
                    content: bytes = await response.read()
                    if response.status < 400:
                        return content
                    refusal = _refusal(response, content)
            except (aiohttp.ClientError, TimeoutError, OSError) as broken:
                raise Unreachable(f"{method} {path}: {broken or type(broken).__name__}") from broken
            if not (again and isinstance(refusal, Unauthorized)):
                raise refusal
        raise refusal

    def _request(self, method: str, path: str, query: dict[str, str] | None, **more: Any) -> Any:
        return self._session.request(method, self._url + path, params=query, allow_redirects=False, **more)

    async def _headers(self, *, fresh: bool = False) -> dict[str, str]:
        """Credentials, asked for on every request: tokens are rotated. After a 401 (`fresh`) the token file is read again at once."""
        if fresh and (loader := getattr(self._configuration, "cede_reload", None)):
            loader()
        token = await self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return {"Authorization": token} if token else {}


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return ({"labelSelector": labels} if labels else {}) | ({"fieldSelector": fields} if fields else {})


def _event(event: _Event, decode: Callable[[bytes | msgspec.Raw], P]) -> WatchEvent[P]:
    if event.type == "ERROR":
        status = msgspec.json.decode(event.object, type=_Status)
        raise error(status.code, status.reason, status.message)
    head = msgspec.json.decode(event.object, type=_Head).metadata
    if event.type == "BOOKMARK":
        return WatchEvent("BOOKMARK", None, head.resourceVersion, "k8s.io/initial-events-end" in head.annotations)
    return WatchEvent(event.type, decode(event.object), head.resourceVersion)


def _refusal(response: aiohttp.ClientResponse, content: bytes) -> ApiError:
    try:
        status = msgspec.json.decode(content, type=_Status)
    except msgspec.DecodeError:
        status = _Status(response.reason or "", content[:200].decode(errors="replace"))
    return error(response.status, status.reason, status.message, response.headers.get("Retry-After", ""))


async def configuration(kubeconfig: str | None = None, context: str | None = None) -> Configuration:
    """Where the API server is and how to speak to it: the kubeconfig named, else the pod's service account, else the user's kubeconfig."""
    found = Configuration()
    if kubeconfig is None:
        try:
            load_incluster_config(client_configuration=found)
        except ConfigException:
            pass
        else:
            found.cede_reload = lambda: load_incluster_config(client_configuration=found)
            return found
    await load_kube_config(config_file=kubeconfig, context=context, client_configuration=found)
    return found


def tls(found: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=found.ssl_ca_cert)
    if found.cert_file:
        context.load_cert_chain(found.cert_file, found.key_file)
    if not found.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@asynccontextmanager
async def connect(*, manager: str, kubeconfig: str | None = None, context: str | None = None) -> AsyncIterator[HttpClient]:
    """A client for as long as the context lasts. Raises kubernetes' ConfigException when nothing says where the API server is."""
    found = await configuration(kubeconfig, context)
    connector = aiohttp.TCPConnector(limit=100, ssl=tls(found) if str(found.host).startswith("https") else False)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=LINE_LIMIT, timeout=TIMEOUT) as session:
        yield HttpClient(session, found, manager)


__all__ = [
    "AlreadyExists", "ApiError", "Client", "Conflict", "Forbidden", "Gone", "HttpClient", "Invalid", "NotFound", "TooManyRequests",
    "Unauthorized", "Unreachable", "WatchEvent", "connect",
]  # fmt: skip
