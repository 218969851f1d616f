"""What a patch does to an object, and whom a selector selects, as an API server has it."""

import copy
from typing import Any

from aiohttp import web

from cede.api.objects import Json


def merge(old: Any, new: Any) -> Any:
    """RFC 7386."""
    if not isinstance(new, dict):
        return copy.deepcopy(new)
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def json_patch(document: Json, operations: list[Json]) -> Json:
    """RFC 6902: test, add, replace, remove. Raises ValueError when a test fails or a path is not
    there."""
    result: Any = copy.deepcopy(document)
    for operation in operations:
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
        ]
        at = result
        try:
            for part in parents:
                at = at[int(part)] if isinstance(at, list) else at[part]
            index: Any = last if isinstance(at, dict) else len(at) if last == "-" else int(last)
            match operation["op"]:
                case "test":
                    if at[index] != operation["value"]:
                        raise ValueError(f"test of {operation['path']} failed")
                case "add" if isinstance(at, list):
                    at.insert(index, operation["value"])
                case "add":
                    at[index] = operation["value"]
                case "replace":
                    _ = at[index]
                    at[index] = operation["value"]
                case "remove":
                    del at[index]
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(f"{operation['op']} {operation['path']}: not there") from error
    return result  # type: ignore[no-any-return]


def selected(body: Json, namespace: str, request: web.Request) -> bool:
    """By namespace, labels (`a=b`, `a`) and the one field every kind can be selected by, its
    name."""
    labels = body["metadata"].get("labels", {})
    field = request.query.get("fieldSelector", "")
    if field and field != f"metadata.name={body['metadata']['name']}":
        return False
    wanted = [
        part.partition("=") for part in request.query.get("labelSelector", "").split(",") if part
    ]
    return (not namespace or body["metadata"].get("namespace") == namespace) and all(
        labels.get(key) == value if sign else key in labels for key, sign, value in wanted
    )
