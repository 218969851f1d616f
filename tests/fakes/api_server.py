"""An API server in memory that speaks real HTTP.

Tests use the real client. The server knows no schema: any kind can be put, listed, watched,
created, patched (merge, JSON, apply as a merge), replaced and deleted. `script` scripts faults.
"""

import asyncio
import copy
import ssl
import time
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

import aiohttp
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from cede.api.objects import Json, Key, Kind
from cede.kube.client import HttpClient
from tests.fakes.http_messages import (
    Answer,
    RequestPath,
    conflict,
    description,
    not_found,
    refusal,
    watch_line,
)
from tests.fakes.object_store import ObjectStore
from tests.fakes.patches import changed, merge, selected, with_status_apart

APPLY = "application/apply-patch+yaml"
MAX_REQUEST_BYTES = 1 << 24


class ApiServer:
    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.url = ""
        # when set, requests without it are Unauthorized
        self.token = ""
        # (method, path) of every request
        self.requests: list[tuple[str, str]] = []
        # (method, path, body) of every write
        self.bodies: list[tuple[str, str, Any]] = []
        # sees every write before it happens, and may answer it instead
        self.admission_hook: Callable[[str, str, Any], web.Response | None] = (
            lambda method, path, body: None
        )
        # its clock, in Unix seconds
        self.clock = time.time
        self._store = ObjectStore()
        self._scripts: dict[tuple[str, str], deque[Answer]] = defaultdict(deque)
        self._stopping = asyncio.Event()

    async def __aenter__(self) -> "ApiServer":
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls).start()
        self.url = f"http{'s' if self.tls else ''}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._stopping.set()
        await self._store.notify()
        await self._runner.cleanup()

    @asynccontextmanager
    async def client(self, manager: str = "test") -> AsyncIterator[HttpClient]:
        configuration = Configuration(host=self.url)
        async with aiohttp.ClientSession(read_bufsize=1 << 21) as session:
            yield HttpClient(session, configuration, manager)

    # --- what tests do ----------------------------------------------------------------------------
    @property
    def version(self) -> int:
        return self._store.version

    @version.setter
    def version(self, version: int) -> None:
        self._store.version = version

    def put(self, kind: Kind, body: Json) -> Json:
        """Creates or replaces an object without any check, as another component would."""
        path = RequestPath(kind.path(namespace=body["metadata"].get("namespace", "")))
        key = (body["metadata"].get("namespace", ""), body["metadata"]["name"])
        old = self._store.objects[path.collection].get(key)
        full = {"apiVersion": kind.api_version, "kind": kind.kind} | copy.deepcopy(body)
        return self._store.write(path.collection, key, full, old)

    def get(self, kind: Kind, key: Key) -> Json | None:
        return copy.deepcopy(self._store.objects[_collection(kind)].get(key))

    def objects(self, kind: Kind) -> list[Json]:
        return copy.deepcopy(list(self._store.objects[_collection(kind)].values()))

    def remove(self, kind: Kind, key: Key) -> None:
        self._store.remove(_collection(kind), key)

    def script(self, method: str, path: str, *answers: Answer) -> None:
        """The next requests of `method` on `path` get these answers; a watch is `WATCH`."""
        self._scripts[method, path].extend(answers)

    def bookmark(self, kind: Kind) -> None:
        """Sends the present version to every watch of the kind."""
        self.version += 1
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"resourceVersion": str(self.version)},
        }
        self._store.record(_collection(kind), "BOOKMARK", body)

    def compact(self) -> None:
        """Forgets the history: a watch from an earlier version is Gone."""
        self._store.compact()

    async def change(self, version: int) -> None:
        """Returns once the server is past this version."""
        async with self._store.changed:
            await self._store.changed.wait_for(lambda: self.version > version)

    def count(self) -> Counter[str]:
        """The number of requests by method."""
        return Counter(method for method, _ in self.requests)

    def writes(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path in self.requests if method not in ("GET", "WATCH")]

    # --- what a server does -----------------------------------------------------------------------
    async def _handle(self, request: web.Request) -> web.StreamResponse:
        watching = request.query.get("watch") == "true"
        method = "WATCH" if watching else request.method
        self.requests.append((method, request.path))
        credentials = request.headers.get("Authorization", "").lower()
        if self.token and credentials != f"bearer {self.token}".lower():
            return refusal(401, "Unauthorized", "who are you?")
        if answers := self._scripts.get((method, request.path)):
            return await answers.popleft()(request)
        if answer := description(request.path, self.clock()):
            return answer
        path = RequestPath(request.path)
        if watching:
            return await self._watch(request, path)
        if request.method == "GET":
            return self._get(path) if path.name else self._list(request, path)
        body = await request.json()
        self.bodies.append((method, request.path, body))
        if refused := self.admission_hook(method, request.path, body):
            return refused
        return self._write(request, path, body)

    def _get(self, path: RequestPath) -> web.Response:
        body = self._store.objects[path.collection].get(path.key)
        return web.json_response(body) if body else not_found(path)

    def _list(self, request: web.Request, path: RequestPath) -> web.Response:
        """One page, from the position that `continue` names."""
        selected_items = self._selected(request, path)
        start = int(request.query.get("continue") or 0)
        end = start + (int(request.query.get("limit") or 0) or len(selected_items))
        items = selected_items[start:end]
        # a real server leaves these fields out for its own kinds
        if "x-k8s.io" not in path.root and "cede.dev" not in path.root:
            items = [merge(item, {"apiVersion": None, "kind": None}) for item in items]
        metadata = {"resourceVersion": str(self.version)}
        if end < len(selected_items):
            metadata["continue"] = str(end)
        page = {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}
        return web.json_response(page)

    def _selected(self, request: web.Request, path: RequestPath) -> list[Json]:
        bodies = self._store.objects[path.collection].values()
        return [body for body in bodies if selected(body, path.namespace, request)]

    # --- watches ----------------------------------------------------------------------------------
    async def _watch(self, request: web.Request, path: RequestPath) -> web.StreamResponse:
        version = int(request.query.get("resourceVersion") or 0)
        initial = request.query.get("sendInitialEvents") == "true"
        if not initial and 0 < version < self._store.oldest_version:
            message = f"too old resource version: {version} ({self._store.oldest_version})"
            return refusal(410, "Expired", message)
        response = web.StreamResponse()
        await response.prepare(request)
        if initial:
            version = self.version
            await self._send_initial_events(response, request, path)
        while not self._stopping.is_set():
            version = await self._send_events(response, request, path, version)
            async with self._store.changed:
                newest = max((event.version for event in self._history(path)), default=0)
                if newest <= version and not self._stopping.is_set():
                    await self._store.changed.wait()
        return response

    async def _send_initial_events(
        self, response: web.StreamResponse, request: web.Request, path: RequestPath
    ) -> None:
        version = self.version
        for body in self._selected(request, path):
            await response.write(watch_line("ADDED", body))
        metadata = {
            "resourceVersion": str(version),
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
        await response.write(watch_line("BOOKMARK", {"metadata": metadata}))

    async def _send_events(
        self, response: web.StreamResponse, request: web.Request, path: RequestPath, version: int
    ) -> int:
        """Sends the events after `version`; returns the version of the last one."""
        for event in self._history(path):
            if event.version <= version:
                continue
            version = event.version
            type_ = event.type
            if type_ != "BOOKMARK" and not selected(event.body, path.namespace, request):
                if not self._was_selected(request, path, version, event.body):
                    continue
                # it has left the selection
                type_ = "DELETED"
            await response.write(watch_line(type_, event.body))
        return version

    def _history(self, path: RequestPath) -> list[Any]:
        return list(self._store.history[path.collection])

    def _was_selected(
        self, request: web.Request, path: RequestPath, version: int, body: Json
    ) -> bool:
        """Whether the object was in the selection before `version`."""
        uid = body["metadata"].get("uid")
        earlier = [
            event.body
            for event in self._history(path)
            if event.version < version and event.body["metadata"].get("uid") == uid
        ]
        return bool(earlier) and selected(earlier[-1], path.namespace, request)

    # --- writes -----------------------------------------------------------------------------------
    def _write(self, request: web.Request, path: RequestPath, body: Any) -> web.Response:
        if request.method == "POST":
            return self._create(path, body)
        old = self._store.objects[path.collection].get(path.key)
        if old is None and request.content_type == APPLY and not path.subresource:
            return self._create_by_apply(path, body)
        if old is None:
            return not_found(path)
        if request.method == "DELETE":
            return self._delete(path, old, body)
        try:
            is_applied = request.content_type == APPLY
            new = changed(request.method, old, body, is_applied=is_applied)
        except ValueError as error:
            return refusal(422, "Invalid", str(error))
        if refused := conflict(path, old, new["metadata"]):
            return refused
        new = with_status_apart(path.subresource, old, new)
        return web.json_response(self._store.write(path.collection, path.key, new, old))

    def _create(self, path: RequestPath, body: Json) -> web.Response:
        metadata = body.setdefault("metadata", {})
        if "name" not in metadata:
            metadata["name"] = metadata.get("generateName", "") + uuid.uuid4().hex[:5]
        if path.namespace:
            metadata["namespace"] = path.namespace
        key = (path.namespace, metadata["name"])
        if key in self._store.objects[path.collection]:
            return refusal(409, "AlreadyExists", f"{key[1]} already exists")
        return web.json_response(self._store.write(path.collection, key, body, None), status=201)

    def _create_by_apply(self, path: RequestPath, body: Json) -> web.Response:
        metadata = body.get("metadata", {})
        if metadata.get("uid"):
            return refusal(409, "Conflict", "uid mismatch: the object is gone")
        if metadata.get("name") != path.name:
            return refusal(400, "BadRequest", "name must be provided")
        metadata |= {"namespace": path.namespace} if path.namespace else {}
        created = self._store.write(path.collection, path.key, body, None)
        return web.json_response(created, status=201)

    def _delete(self, path: RequestPath, old: Json, options: Json) -> web.Response:
        if refused := conflict(path, old, (options or {}).get("preconditions", {})):
            return refused
        if old["metadata"].get("finalizers"):
            return web.json_response(self._store.mark_deleted(path.collection, path.key, old))
        self._store.remove(path.collection, path.key)
        return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success"})


def _collection(kind: Kind) -> str:
    return RequestPath(kind.path()).collection
