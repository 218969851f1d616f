"""The parts of an API server's HTTP: paths of requests, refusals, lines of a watch."""

import json
import re
from collections.abc import Awaitable, Callable
from email.utils import formatdate

from aiohttp import web

from cede.api.objects import Json, Key

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


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


def description(path: str, now: float) -> web.Response | None:
    """What the server tells everybody about itself, at this time of its clock (Unix seconds).

    None if the path is one of objects. It lists the kinds of no group.
    """
    if path == "/version":
        date = formatdate(now, usegmt=True)
        return web.json_response({"gitVersion": "v1.36.0"}, headers={"Date": date})
    if re.fullmatch("/apis/[^/]+/[^/]+", path):
        return refusal(404, "NotFound", "the server could not find the requested resource")
    return None


def watch_line(type_: str, body: Json) -> bytes:
    """One event of a watch."""
    return json.dumps({"type": type_, "object": body}).encode() + b"\n"


class RequestPath:
    """The collection or object that a URL path names.

    `/apis/batch/v1/namespaces/a/jobs/j/status` is subresource `status` of object `j` in namespace
    `a` of collection `apis/batch/v1/jobs`.
    """

    def __init__(self, path: str) -> None:
        parts = path.strip("/").split("/")
        root_length = 2 if parts[0] == "api" else 3
        self.root = "/".join(parts[:root_length])
        parts = parts[root_length:]
        self.namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("status", "finalize"):
            self.namespace = parts[1]
            parts = parts[2:]
        self.collection = f"{self.root}/{parts[0]}"
        self.name = parts[1] if len(parts) > 1 else ""
        self.subresource = parts[2] if len(parts) > 2 else ""

    @property
    def key(self) -> Key:
        return self.namespace, self.name


def not_found(path: RequestPath) -> web.Response:
    return refusal(404, "NotFound", f"{path.collection} {path.name} not found")


def conflict(path: RequestPath, old: Json, expected: Json) -> web.Response | None:
    """The refusal of a write that expects another version or another uid than the object has."""
    for field in ("resourceVersion", "uid"):
        if field in expected and expected[field] != old["metadata"][field]:
            return refusal(409, "Conflict", f"{path.name}: {field} is {old['metadata'][field]}")
    return None
