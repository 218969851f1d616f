"""Bytes to objects: one page, one event, one refusal at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec
from pydantic import BaseModel

from cede.kube.errors import ApiError, Unreadable, error

P = TypeVar("P")
Decode = Callable[[bytes | msgspec.Raw], P]


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[P]):
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK. A bookmark has no object; `initial_end` marks
    the one after the first list."""

    type: str
    object: P | None
    version: str
    initial_end: bool = False


def decoder(cls: type[P]) -> Decode[P]:
    """Bytes to `cls`: a frozen class of cede.api by msgspec, one of our own objects by pydantic,
    `dict` as it is.

    The function raises Unreadable, naming the object, when the bytes are no `cls`.
    """
    if issubclass(cls, BaseModel):
        decode: Decode[Any] = lambda raw: cls.model_validate_json(bytes(raw))  # noqa: E731
    else:
        decode = msgspec.json.Decoder(cls, strict=False).decode

    def found(raw: bytes | msgspec.Raw) -> P:
        try:
            return cast(P, decode(raw))
        except ValueError as unlike:
            # msgspec's and pydantic's errors are both one
            raise Unreadable(f"{cls.__name__} {_name(raw)}: {unlike}") from unlike

    return found


def _name(raw: bytes | msgspec.Raw) -> str:
    try:
        head = msgspec.json.decode(raw, type=_Head).metadata
    except ValueError:
        return bytes(raw)[:200].decode(errors="replace")
    return "/".join(part for part in (head.namespace, head.name) if part)


class _Version(msgspec.Struct):
    name: str = ""
    namespace: str = ""
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


def page(content: bytes, decode: Decode[P]) -> tuple[list[P], str, str]:
    """(objects, version, token of the next page or nothing) of one page of a list."""
    found = msgspec.json.decode(content, type=_List)
    return (
        [decode(raw) for raw in found.items],
        found.metadata.resourceVersion,
        found.metadata.continue_,
    )


def event(line: bytes, decode: Decode[P]) -> WatchEvent[P]:
    """One line of a watch. Raises what an ERROR event says, such as Gone."""
    found = msgspec.json.decode(line, type=_Event)
    if found.type == "ERROR":
        status = msgspec.json.decode(found.object, type=_Status)
        raise error(status.code, status.reason, status.message)
    head = msgspec.json.decode(found.object, type=_Head).metadata
    if found.type == "BOOKMARK":
        return WatchEvent(
            "BOOKMARK", None, head.resourceVersion, "k8s.io/initial-events-end" in head.annotations
        )
    return WatchEvent(found.type, decode(found.object), head.resourceVersion)


def refusal(status: int, content: bytes, otherwise: str, retry_after: str) -> ApiError:
    """The exception for a response: from its Status, or from `otherwise` and what else it says."""
    try:
        found = msgspec.json.decode(content, type=_Status)
    except msgspec.MsgspecError:
        found = _Status(otherwise, content[:200].decode(errors="replace"))
    return error(status, found.reason, found.message, retry_after)
