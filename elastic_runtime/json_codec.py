"""PURE. Dataclasses to JSON and back; what arrives is checked against the types of the fields.

Fields that the receiver does not know are ignored. Fields that are missing keep their default.
"""

import json
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

T = TypeVar("T")
# Every JSON parser keeps integers up to this one exact.
MAX_NUMBER = 2**53
MAX_LIST = 4096
# Characters of a text. A contract may allow less.
MAX_TEXT = 1 << 20
# Metadata of a float field that may be negative, infinite or NaN, such as a loss.
ANY_NUMBER = {"any_number": True}
_EXPECTED: dict[object, str] = {
    bool: "true or false",
    int: "a whole number from 0 on",
    float: "a number from 0 on",
    str: "a text of at most {max_text:,} characters",
    tuple[int, ...]: f"a list of at most {MAX_LIST:,} whole numbers from 0 on",
    tuple[str, ...]: f"a list of at most {MAX_LIST:,} texts",
}


def dump(values: object) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()


def encode(message: Any) -> bytes:
    """The fields of a dataclass. Fields that are None are left out."""
    return dump(asdict(message, dict_factory=_without_none))


def decode(cls: type[T], body: bytes) -> T:
    """The `cls` in `body`. Raises ValueError, in one line, for anything else."""
    return from_dict(cls, load(body))


def encode_line(message: Any) -> bytes:
    """One line, with its end, that names the class in the field `kind`."""
    values = {"kind": type(message).__name__}
    return dump(values | asdict(message, dict_factory=_without_none)) + b"\n"


def decode_line(classes: Mapping[str, Any], line: bytes) -> Any:
    """The message in `line`, of one of the `classes` by name. Raises ValueError, in one line."""
    values = load(line)
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in classes:
        raise ValueError(f"the kind is {_shown(kind)}: it must be one of {', '.join(classes)}")
    return from_dict(classes[kind], values)


def load(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`. Raises ValueError if it holds anything else."""
    try:
        values = json.loads(body)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
    if not isinstance(values, dict):
        raise ValueError(f"a JSON object is needed, not {_shown(values)}")
    return values


def from_dict(cls: type[T], values: object, max_text: int = MAX_TEXT) -> T:
    """A `cls` with these values. Raises ValueError that names the first field that is wrong."""
    if not isinstance(values, dict):
        raise ValueError(f"not a {cls.__name__}: {_shown(values)}")
    hashable: Any = cls
    checked = dict[str, Any]()
    for field in _fields(hashable):
        if field.name in values:
            checked[field.name] = _checked(field, values[field.name], max_text)
        elif field.required:
            raise ValueError(f"not a {cls.__name__}: {field.name} is missing")
    return cls(**checked)


class _Field(NamedTuple):
    name: str
    # Of a value that is not None.
    kind: Any
    is_optional: bool
    is_message: bool
    any_number: bool
    required: bool


@cache
def _fields(cls: Hashable) -> list[_Field]:
    """Of a dataclass."""
    dataclass: Any = cls
    hints = get_type_hints(dataclass)
    return [_described(field, hints[field.name]) for field in fields(dataclass)]


def _described(field: Field[Any], hint: Any) -> _Field:
    is_optional = NoneType in get_args(hint)
    kind = get_args(hint)[0] if is_optional else hint
    return _Field(
        field.name,
        kind,
        is_optional,
        is_message=is_dataclass(kind),
        any_number="any_number" in field.metadata,
        required=field.default is MISSING and field.default_factory is MISSING,
    )


def _checked(field: _Field, value: object, max_text: int) -> Any:
    if value is None and field.is_optional:
        return None
    kind = field.kind
    if field.is_message:
        return from_dict(kind, value, max_text)
    if isinstance(value, list):
        value = tuple(value)
    if not _fits(kind, value, field.any_number, max_text):
        expected = _EXPECTED[kind].format(max_text=max_text)
        raise ValueError(f"{field.name} is {_shown(value)}: it must be {expected}")
    return _as_float(field.name, value) if kind is float else value


def _as_float(name: str, value: Any) -> float:
    """JSON writes a float without a fraction as a whole number, of any size."""
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{name} is {_shown(value)}: it must be a number below 1e308") from error


def _fits(kind: Any, value: object, any_number: bool, max_text: int) -> bool:
    if kind is bool:
        return isinstance(value, bool)
    if kind is int:
        return type(value) is int and 0 <= value <= MAX_NUMBER
    if kind is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        # NaN compares false with every number.
        return is_number and (any_number or 0 <= value <= MAX_NUMBER)  # type: ignore[operator]
    if kind is str:
        return isinstance(value, str) and len(value) <= max_text
    item, _ = get_args(kind)
    return (
        isinstance(value, tuple)
        and len(value) <= MAX_LIST
        and all(_fits(item, entry, any_number, max_text) for entry in value)
    )


def _shown(value: object) -> str:
    """At most 40 characters of it, on one line."""
    return repr(str(value)[:40])


def _without_none(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value is not None}
