"""How an API server applies a patch, and which objects a selector selects."""

import copy
from typing import Any

from aiohttp import web

from cede.api.objects import Json


def merge(old: Any, new: Any) -> Any:
    """A merge patch (RFC 7386)."""
    if not isinstance(new, dict):
        return copy.deepcopy(new)
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def apply(old: Json, new: Json) -> Json:
    """A server-side apply, as a merge patch in which pod sets of one name are merged. A status has
    one owner: what that applies no more is removed."""
    applied: Json = merge(old, new)
    if "status" in new:
        applied["status"] = copy.deepcopy(new["status"])
    before = {pods["name"]: pods for pods in old.get("spec", {}).get("podSets", ())}
    if before and "podSets" in new.get("spec", {}):
        changes = {pods["name"]: pods for pods in new["spec"]["podSets"]}
        sets = [merge(before.get(name, {}), changes.get(name, {})) for name in before | changes]
        applied["spec"]["podSets"] = sets
    return applied


def json_patch(document: Json, operations: list[Json]) -> Json:
    """A JSON patch (RFC 6902) of the operations test, add, replace and remove.

    Raises ValueError when a test fails or a path does not exist.
    """
    result: Any = copy.deepcopy(document)
    for operation in operations:
        try:
            _carry_out(result, operation)
        except (KeyError, IndexError, TypeError) as error:
            message = f"{operation['op']} {operation['path']}: no such path"
            raise ValueError(message) from error
    return result  # type: ignore[no-any-return]


def _carry_out(document: Any, operation: Json) -> None:
    *parents, last = [
        part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
    ]
    container = document
    for part in parents:
        container = container[int(part)] if isinstance(container, list) else container[part]
    index: Any = last
    if isinstance(container, list):
        index = len(container) if last == "-" else int(last)
    match operation["op"]:
        case "test":
            if container[index] != operation["value"]:
                raise ValueError(f"test of {operation['path']} failed")
        case "add" if isinstance(container, list):
            container.insert(index, operation["value"])
        case "add":
            container[index] = operation["value"]
        case "replace":
            _ = container[index]
            container[index] = operation["value"]
        case "remove":
            del container[index]


def changed(method: str, old: Json, body: Any, *, is_applied: bool = False) -> Json:
    """The object after a PUT, or after a PATCH: an apply, a merge patch (dict) or a JSON patch
    (list)."""
    if is_applied:
        return apply(old, body)
    if isinstance(body, list):
        return json_patch(old, body)
    new: Json = body if method == "PUT" else merge(old, body)
    return new


def with_status_apart(subresource: str, old: Json, new: Json) -> Json:
    """A write of the status changes nothing else, and no other write changes the status."""
    if subresource == "status":
        return copy.deepcopy(old) | ({"status": new["status"]} if "status" in new else {})
    body = {key: value for key, value in copy.deepcopy(new).items() if key != "status"}
    return body | ({"status": old["status"]} if "status" in old else {})


def selected(body: Json, namespace: str, request: web.Request) -> bool:
    """Whether an object is in the namespace and matches the selectors of the request.

    Supported are labels (`a=b`, `a`), the field that every kind supports, its name, and the uid of
    what an event is about.
    """
    metadata = body["metadata"]
    if namespace and metadata.get("namespace") != namespace:
        return False
    field = request.query.get("fieldSelector", "")
    about = body.get("regarding", {}).get("uid")
    if field and field not in (f"metadata.name={metadata['name']}", f"regarding.uid={about}"):
        return False
    labels = metadata.get("labels", {})
    for term in filter(None, request.query.get("labelSelector", "").split(",")):
        key, sign, value = term.partition("=")
        if key not in labels or (sign and labels[key] != value):
            return False
    return True
