"""Decodes what the API server sends: a page of a list, an event of a watch, a refusal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec
from pydantic import BaseModel

from cede.api.objects import Key
from cede.kube.errors import ApiError, Unreadable, from_status

P = TypeVar("P")
Decode = Callable[[bytes | msgspec.Raw], P]
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
MAX_SHOWN_BYTES = 200


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[P]):
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK.

    A bookmark has no object. `initial_end` marks the bookmark after the initial objects.
    An object that cannot be read is None, and `error` names it.
    """

    type: str
    object: P | None
    version: str
    initial_end: bool = False
    error: Unreadable | None = None


def decoder(cls: type[P], kind: str = "") -> Decode[P]:
    """The function from bytes to `cls`.

    A frozen class of cede.api is decoded by msgspec, a pydantic model by pydantic, and `dict`
    stays a dict. The function raises Unreadable, which names the object, if the bytes do not fit.
    `kind` is what it calls the object: another name than that of the class, if that reads only a
    part of the kind, or more than others do.
    """
    if issubclass(cls, BaseModel):
        decode: Decode[Any] = lambda raw: cls.model_validate_json(bytes(raw))  # noqa: E731
    else:
        decode = msgspec.json.Decoder(cls, strict=False).decode

    def decode_or_name(raw: bytes | msgspec.Raw) -> P:
        try:
            return cast(P, decode(raw))
        except (ValueError, RecursionError) as error:
            # the errors of msgspec and of pydantic are both ValueErrors
            key = _key(raw)
            name = "/".join(filter(None, key)) or _first_bytes(raw)
            raise Unreadable(f"{kind or cls.__name__} {name}: {error}", key) from error

    return decode_or_name


def _key(raw: bytes | msgspec.Raw) -> Key:
    """The key of an object; empty if it has none that can be read."""
    try:
        metadata = msgspec.json.decode(raw, type=_ObjectHead).metadata
    except (ValueError, RecursionError):
        return "", ""
    return metadata.namespace, metadata.name


def _first_bytes(raw: bytes | msgspec.Raw) -> str:
    return bytes(raw)[:MAX_SHOWN_BYTES].decode(errors="replace")


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


def page(
    content: bytes, decode: Decode[P], unreadable: list[Unreadable] | None = None
) -> tuple[list[P], str, str]:
    """(objects, version, token of the next page or nothing) of one page of a list.

    Objects that cannot be read are left out and added to `unreadable`. Without such a list, the
    first one is raised, as is a page that is no list at all.
    """
    try:
        content_list = msgspec.json.decode(content, type=_List)
    except msgspec.MsgspecError as error:
        raise Unreadable(f"no list: {_first_bytes(content)}: {error}") from error
    objects = list[P]()
    for raw in content_list.items:
        try:
            objects.append(decode(raw))
        except Unreadable as error:
            if unreadable is None:
                raise
            unreadable.append(error)
    return objects, content_list.metadata.resourceVersion, content_list.metadata.continue_


def event(line: bytes, decode: Decode[P]) -> WatchEvent[P]:
    """One line of a watch. An ERROR event is raised as its exception, such as Gone.

    The event of an object that cannot be read has its `error`.
    """
    parsed = msgspec.json.decode(line, type=_Event)
    if parsed.type == "ERROR":
        status = msgspec.json.decode(parsed.object, type=_Status)
        raise from_status(status.code, status.reason, status.message)
    metadata = msgspec.json.decode(parsed.object, type=_ObjectHead).metadata
    if parsed.type == "BOOKMARK":
        initial_end = INITIAL_EVENTS_END in metadata.annotations
        return WatchEvent("BOOKMARK", None, metadata.resourceVersion, initial_end)
    try:
        return WatchEvent(parsed.type, decode(parsed.object), metadata.resourceVersion)
    except Unreadable as error:
        return WatchEvent(parsed.type, None, metadata.resourceVersion, error=error)


def refusal(status: int, content: bytes, default_reason: str, retry_after: str) -> ApiError:
    """The exception for a response of this HTTP status, by the Status object in its content.

    A content that is no Status, such as that of a proxy, becomes the message.
    """
    try:
        body = msgspec.json.decode(content, type=_Status)
    except msgspec.MsgspecError:
        body = _Status(default_reason, content[:MAX_SHOWN_BYTES].decode(errors="replace"))
    return from_status(status, body.reason, body.message, retry_after)
