"""Decodes what the API server sends: a page of a list, an event of a watch, a refusal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec
from pydantic import BaseModel

from cede.kube.errors import ApiError, Unreadable, from_status

P = TypeVar("P")
Decode = Callable[[bytes | msgspec.Raw], P]
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
MAX_SHOWN_BYTES = 200


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[P]):
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK.

    A bookmark has no object. `initial_end` marks the bookmark after the initial objects.
    """

    type: str
    object: P | None
    version: str
    initial_end: bool = False


def decoder(cls: type[P]) -> Decode[P]:
    """The function from bytes to `cls`.

    A frozen class of cede.api is decoded by msgspec, a pydantic model by pydantic, and `dict`
    stays a dict. The function raises Unreadable, which names the object, if the bytes do not fit.
    """
    if issubclass(cls, BaseModel):
        decode: Decode[Any] = lambda raw: cls.model_validate_json(bytes(raw))  # noqa: E731
    else:
        decode = msgspec.json.Decoder(cls, strict=False).decode

    def decode_or_name(raw: bytes | msgspec.Raw) -> P:
        try:
            return cast(P, decode(raw))
        except ValueError as error:
            # the errors of msgspec and of pydantic are both ValueErrors
            raise Unreadable(f"{cls.__name__} {_name(raw)}: {error}") from error

    return decode_or_name


def _name(raw: bytes | msgspec.Raw) -> str:
    try:
        metadata = msgspec.json.decode(raw, type=_ObjectHead).metadata
    except ValueError:
        return bytes(raw)[:MAX_SHOWN_BYTES].decode(errors="replace")
    return "/".join(part for part in (metadata.namespace, metadata.name) if part)


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    annotations: dict[str, str] = {}


class _ObjectHead(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] = []


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    code: int = 0


def page(content: bytes, decode: Decode[P]) -> tuple[list[P], str, str]:
    """(objects, version, token of the next page or nothing) of one page of a list."""
    content_list = msgspec.json.decode(content, type=_List)
    objects = [decode(raw) for raw in content_list.items]
    return objects, content_list.metadata.resourceVersion, content_list.metadata.continue_


def event(line: bytes, decode: Decode[P]) -> WatchEvent[P]:
    """One line of a watch. An ERROR event is raised as its exception, such as Gone."""
    parsed = msgspec.json.decode(line, type=_Event)
    if parsed.type == "ERROR":
        status = msgspec.json.decode(parsed.object, type=_Status)
        raise from_status(status.code, status.reason, status.message)
    metadata = msgspec.json.decode(parsed.object, type=_ObjectHead).metadata
    if parsed.type == "BOOKMARK":
        initial_end = INITIAL_EVENTS_END in metadata.annotations
        return WatchEvent("BOOKMARK", None, metadata.resourceVersion, initial_end)
    return WatchEvent(parsed.type, decode(parsed.object), metadata.resourceVersion)


def refusal(status: int, content: bytes, default_reason: str, retry_after: str) -> ApiError:
    """The exception for a response of this HTTP status, by the Status object in its content.

    A content that is no Status, such as that of a proxy, becomes the message.
    """
    try:
        body = msgspec.json.decode(content, type=_Status)
    except msgspec.MsgspecError:
        body = _Status(default_reason, content[:MAX_SHOWN_BYTES].decode(errors="replace"))
    return from_status(status, body.reason, body.message, retry_after)
