"""An API server in memory, speaking real HTTP. We fake the wire, not the client: what goes over it
is what a real server sends.

It knows no schema: any kind can be put, listed, watched, created, patched (merge, JSON, apply as a
merge), replaced, deleted.
Faults are scripted: `server.script(method, path, answer, ...)` comes before the real answers.
"""

import asyncio
import copy
import json
import ssl
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import aiohttp
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from cede.api.objects import Json, Key, Kind
from cede.kube.client import HttpClient
from tests.fakes.merge_patches import json_patch as json_patch
from tests.fakes.merge_patches import merge as merge
from tests.fakes.merge_patches import selected

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
SYSTEM = ("uid", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp")


def refusal(
    status: int, reason: str, message: str, headers: dict[str, str] | None = None
) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": status,
    }
    return web.json_response(body, status=status, headers=headers)


def line(type_: str, body: Json) -> bytes:
    """One event of a watch."""
    return json.dumps({"type": type_, "object": body}).encode() + b"\n"


class Place:
    """Where a request points: a collection or an object in it."""

    def __init__(self, path: str) -> None:
        parts = path.strip("/").split("/")
        self.root = "/".join(parts[: 2 if parts[0] == "api" else 3])
        rest = parts[2 if parts[0] == "api" else 3 :]
        self.namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            self.namespace = rest[1]
            rest = rest[2:]
        self.collection = f"{self.root}/{rest[0]}"
        self.name = rest[1] if len(rest) > 1 else ""
        self.subresource = rest[2] if len(rest) > 2 else ""

    @property
    def key(self) -> Key:
        return self.namespace, self.name


class ApiServer:
    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        # when set, requests without it are Unauthorized
        self.token = ""
        self.version = 100
        self.stored: dict[str, dict[Key, Json]] = defaultdict(dict)
        self.history: dict[str, list[tuple[int, str, Json]]] = defaultdict(list)
        self.requests: list[tuple[str, str]] = []
        # writes: method, path, body
        self.bodies: list[tuple[str, str, Any]] = []
        self.scripts: dict[tuple[str, str], deque[Answer]] = defaultdict(deque)
        # a watch from an older version is Gone
        self.oldest = 0
        # admission, or a scripted refusal
        self.before: Callable[[str, str, Any], web.Response | None] = lambda method, path, body: (
            None
        )
        self._changed = asyncio.Condition()
        self._stopping = asyncio.Event()
        self.url = ""

    async def __aenter__(self) -> "ApiServer":
        app = web.Application(client_max_size=1 << 24)
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
        async with self._changed:
            self._changed.notify_all()
        await self._runner.cleanup()

    @asynccontextmanager
    async def client(self, manager: str = "test") -> AsyncIterator[HttpClient]:
        configuration = Configuration(host=self.url)
        async with aiohttp.ClientSession(read_bufsize=1 << 21) as session:
            yield HttpClient(session, configuration, manager)

    # --- what tests do ----------------------------------------------------------------------------

    def put(self, kind: Kind, body: Json) -> Json:
        """Create or replace without any rule, as other components would; watchers see it."""
        place = Place(kind.path(namespace=body["metadata"].get("namespace", "")))
        key = (body["metadata"].get("namespace", ""), body["metadata"]["name"])
        old = self.stored[place.collection].get(key)
        full = {"apiVersion": kind.api_version, "kind": kind.kind} | copy.deepcopy(body)
        return self._store(place.collection, key, full, old)

    def get(self, kind: Kind, key: Key) -> Json | None:
        return copy.deepcopy(self.stored[Place(kind.path()).collection].get(key))

    def objects(self, kind: Kind) -> list[Json]:
        return copy.deepcopy(list(self.stored[Place(kind.path()).collection].values()))

    def remove(self, kind: Kind, key: Key) -> None:
        self._drop(Place(kind.path()).collection, key)

    def script(self, method: str, path: str, *answers: Answer) -> None:
        """Answer the next requests of `method` on `path` (a watch is `WATCH`) so, one each."""
        self.scripts[method, path].extend(answers)

    def bookmark(self, kind: Kind) -> None:
        """Tells every watch of the kind how far the server is."""
        self.version += 1
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"resourceVersion": str(self.version)},
        }
        self._tell(Place(kind.path()).collection, "BOOKMARK", body)

    def compact(self) -> None:
        """Forgets what happened so far: who asks for it is told to list again."""
        self.oldest = self.version
        self.history.clear()

    async def change(self, version: int) -> None:
        """Returns once the server is past this version."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.version > version)

    def count(self) -> Counter[str]:
        return Counter(method for method, _ in self.requests)

    def writes(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path in self.requests if method not in ("GET", "WATCH")]

    # --- what a server does -----------------------------------------------------------------------

    def _store(self, collection: str, key: Key, body: Json, old: Json | None) -> Json:
        metadata = body["metadata"]
        kept = old["metadata"] if old else {}
        for field in SYSTEM:
            if field in kept:
                metadata[field] = kept[field]
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        metadata.setdefault("generation", 1)
        if old is not None and body == old:
            return copy.deepcopy(old)
        if old is not None and body.get("spec") != old.get("spec"):
            metadata["generation"] = kept.get("generation", 1) + 1
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        if old is not None and metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.stored[collection][key] = body
            self._drop(collection, key)
            return body
        self.stored[collection][key] = body
        self._tell(collection, "MODIFIED" if old else "ADDED", body)
        return copy.deepcopy(body)

    def _drop(self, collection: str, key: Key) -> None:
        body = self.stored[collection].pop(key)
        self.version += 1
        self._tell(
            collection, "DELETED", merge(body, {"metadata": {"resourceVersion": str(self.version)}})
        )

    def _tell(self, collection: str, type_: str, body: Json) -> None:
        self.history[collection].append((self.version, type_, copy.deepcopy(body)))

        async def notify() -> None:
            async with self._changed:
                self._changed.notify_all()

        self._task = asyncio.get_running_loop().create_task(notify())

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        watching = request.query.get("watch") == "true"
        method = "WATCH" if watching else request.method
        self.requests.append((method, request.path))
        if (
            self.token
            and request.headers.get("Authorization", "").lower() != f"bearer {self.token}".lower()
        ):
            return refusal(401, "Unauthorized", "who are you?")
        if queue := self.scripts.get((method, request.path)):
            return await queue.popleft()(request)
        place = Place(request.path)
        if watching:
            return await self._watch(request, place)
        if request.method == "GET":
            return self._read(request, place)
        body = await request.json()
        self.bodies.append((method, request.path, body))
        if refused := self.before(method, request.path, body):
            return refused
        return self._write(request, place, body)

    def _read(self, request: web.Request, place: Place) -> web.Response:
        if place.name:
            found = self.stored[place.collection].get(place.key)
            return (
                web.json_response(found)
                if found
                else refusal(404, "NotFound", f"{place.collection} {place.name} not found")
            )
        items = [
            o
            for o in self.stored[place.collection].values()
            if selected(o, place.namespace, request)
        ]
        # a real server leaves these out for its own kinds
        if "x-k8s.io" not in place.root and "cede.dev" not in place.root:
            items = [{k: v for k, v in o.items() if k not in ("apiVersion", "kind")} for o in items]
        start = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or 0) or len(items) or 1
        more = str(start + limit) if start + limit < len(items) else ""
        head = {"resourceVersion": str(self.version)} | ({"continue": more} if more else {})
        return web.json_response(
            {
                "kind": "List",
                "apiVersion": "v1",
                "metadata": head,
                "items": items[start : start + limit],
            }
        )

    async def _watch(self, request: web.Request, place: Place) -> web.StreamResponse:
        seen = int(request.query.get("resourceVersion") or 0)
        initial = request.query.get("sendInitialEvents") == "true"
        if not initial and 0 < seen < self.oldest:
            return refusal(410, "Expired", f"too old resource version: {seen} ({self.oldest})")
        response = web.StreamResponse()
        await response.prepare(request)
        if initial:
            seen = self.version
            for body in [
                o
                for o in self.stored[place.collection].values()
                if selected(o, place.namespace, request)
            ]:
                await response.write(line("ADDED", body))
            head = {
                "resourceVersion": str(seen),
                "annotations": {"k8s.io/initial-events-end": "true"},
            }
            await response.write(line("BOOKMARK", {"metadata": head}))
        while not self._stopping.is_set():
            for version, type_, body in list(self.history[place.collection]):
                if version > seen:
                    seen = version
                    if type_ != "BOOKMARK" and not selected(body, place.namespace, request):
                        if not self._was_selected(place, version, body, request):
                            continue
                        # it has left the selection
                        type_ = "DELETED"
                    await response.write(line(type_, body))
            async with self._changed:
                if not self._stopping.is_set() and not any(
                    v > seen for v, _, _ in self.history[place.collection]
                ):
                    await self._changed.wait()
        return response

    def _was_selected(self, place: Place, version: int, body: Json, request: web.Request) -> bool:
        uid = body["metadata"].get("uid")
        earlier = [
            o
            for v, _, o in self.history[place.collection]
            if v < version and o["metadata"].get("uid") == uid
        ]
        return bool(earlier) and selected(earlier[-1], place.namespace, request)

    def _write(self, request: web.Request, place: Place, body: Any) -> web.Response:
        stored = self.stored[place.collection]
        if request.method == "POST":
            metadata = body.setdefault("metadata", {})
            if "name" not in metadata:
                metadata["name"] = metadata.get("generateName", "") + uuid.uuid4().hex[:5]
            if place.namespace:
                metadata["namespace"] = place.namespace
            key = (place.namespace, metadata["name"])
            if key in stored:
                return refusal(409, "AlreadyExists", f"{key[1]} already exists")
            return web.json_response(self._store(place.collection, key, body, None), status=201)
        old = stored.get(place.key)
        if (
            request.method == "PATCH"
            and request.content_type == "application/apply-patch+yaml"
            and old is None
            and not place.subresource
        ):
            if body.get("metadata", {}).get("uid"):
                return refusal(409, "Conflict", "uid mismatch: the object is gone")
            body.setdefault("metadata", {}).update(
                {"name": place.name} | ({"namespace": place.namespace} if place.namespace else {})
            )
            return web.json_response(
                self._store(place.collection, place.key, body, None), status=201
            )
        if old is None:
            return refusal(404, "NotFound", f"{place.collection} {place.name} not found")
        if request.method == "DELETE":
            return self._delete(place, old, body)
        try:
            new = (
                json_patch(old, body)
                if isinstance(body, list)
                else body
                if request.method == "PUT"
                else merge(old, body)
            )
        except ValueError as error:
            return refusal(422, "Invalid", str(error))
        for field in ("resourceVersion", "uid"):
            if field in new["metadata"] and new["metadata"][field] != old["metadata"][field]:
                return refusal(
                    409, "Conflict", f"{place.name}: {field} is {old['metadata'][field]}"
                )
        if place.subresource == "status":
            new = copy.deepcopy(old) | ({"status": new["status"]} if "status" in new else {})
        elif "status" in old or "status" in new:
            new = {k: v for k, v in copy.deepcopy(new).items() if k != "status"} | (
                {"status": old["status"]} if "status" in old else {}
            )
        return web.json_response(self._store(place.collection, place.key, new, old))

    def _delete(self, place: Place, old: Json, options: Json) -> web.Response:
        for field, value in (options or {}).get("preconditions", {}).items():
            if old["metadata"][field] != value:
                return refusal(
                    409, "Conflict", f"{place.name}: {field} is {old['metadata'][field]}"
                )
        if old["metadata"].get("finalizers"):
            going = copy.deepcopy(old)
            going["metadata"].setdefault(
                "deletionTimestamp", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            )
            self.version += 1
            going["metadata"]["resourceVersion"] = str(self.version)
            self.stored[place.collection][place.key] = going
            self._tell(place.collection, "MODIFIED", going)
            return web.json_response(going)
        self._drop(place.collection, place.key)
        return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success"})
