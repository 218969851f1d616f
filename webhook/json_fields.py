"""PURE. Reads and fills JSON objects of any shape. No function raises, whatever a user sends."""

from typing import Any, TypeVar

from cede.api.objects import Json

V = TypeVar("V")


def get_dict(value: object, *path: str) -> Json:
    """The mapping at `path` of `value`; an empty one when there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def get_list(value: Json, name: str) -> list[object]:
    """The list called `name`, with every item at its own index; empty when there is none."""
    items = value.get(name)
    return items if isinstance(items, list) else []


def get_dicts(value: Json, name: str) -> list[Json]:
    """The mappings in the list called `name`, without its other items."""
    return [item for item in get_list(value, name) if isinstance(item, dict)]


def ensure_dict(value: Json, *path: str) -> Json:
    """The mapping at `path` of `value`. Creates it, and replaces anything else on the path."""
    for key in path:
        inner = value.get(key)
        if not isinstance(inner, dict):
            inner = value[key] = {}
        value = inner
    return value


def copied(value: V) -> V:
    """A copy that shares no list and no mapping with `value`.

    copy.deepcopy also keeps a note of each, which takes more memory than the copy.
    """
    copy: V = _copied(value)
    return copy


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


def get_annotation(job: Json | None, name: str) -> str:
    """The annotation called `name`; empty when there is none."""
    return str(get_dict(job, "metadata", "annotations").get(name, ""))


def get_label(job: Json | None, name: str) -> str:
    """The label called `name`; empty when there is none."""
    return str(get_dict(job, "metadata", "labels").get(name, ""))


def get_group_kind(job: Json) -> tuple[str, str]:
    """(group, kind) of an object; the group of the core API is empty."""
    return str(job.get("apiVersion", "")).rpartition("/")[0], str(job.get("kind", ""))
