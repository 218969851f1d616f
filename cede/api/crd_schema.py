"""PURE. What the models of our custom resources use: columns, rules, common types."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from cede.api.objects import MAX_CONDITION_MESSAGE, Json, Kind
from cede.api.short_text import cut


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    # above 0: only with `-o wide`
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Crd:
    """The parts of a CustomResourceDefinition besides its schema; a model carries it as `CRD`."""

    kind: Kind
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    # (CEL expression, error message) on the whole object, at every write: also of its status and
    # of its finalizers
    rules: tuple[tuple[str, str], ...] = ()
    # the same, only when it is created
    creation_rules: tuple[tuple[str, str], ...] = ()
    description: str = ""


def rules(*pairs: tuple[str, str]) -> Json:
    """CEL rules (expression, error message) for the `json_schema_extra` of a field or a model."""
    return {
        "x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]
    }


def keyed(*keys: str) -> Json:
    """Makes a list a map by these keys.

    The API server then refuses two entries with one key, and several field managers can each own
    some entries.
    """
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


ATOMIC: Json = {"x-kubernetes-list-type": "atomic"}
"""Makes a list one value, which has one field manager."""

Quantity = Annotated[
    str,
    BeforeValidator(str),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "maxLength": 32,
            **rules(
                (
                    "type(self) == int ? self >= 0 : isQuantity(self) "
                    "&& quantity(self).compareTo(quantity('0')) >= 0",
                    "this is not an amount: write it like 4, 500m or 16Gi, and not below zero",
                )
            ),
        }
    ),
]
"""An amount as Kubernetes writes it: `4`, `500m`, `16Gi`. Always a string once it is parsed."""

MAX_STATUS_TEXT = 1024
StatusText = Annotated[
    str,
    AfterValidator(partial(cut, limit=MAX_STATUS_TEXT)),
    WithJsonSchema({"type": "string", "maxLength": MAX_STATUS_TEXT}),
]
"""A text of a status that is composed, for example of names, and cut to what the field may hold."""

_CONDITION: Json = {
    "type": "object",
    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
    "properties": {
        "type": {
            "type": "string",
            "maxLength": 316,
            "description": "What this condition is about.",
        },
        "status": {
            "type": "string",
            "enum": ["True", "False", "Unknown"],
            "description": "Whether the condition holds.",
        },
        "reason": {
            "type": "string",
            "maxLength": 1024,
            "description": "The reason in one word, for programs.",
        },
        "message": {
            "type": "string",
            "maxLength": MAX_CONDITION_MESSAGE,
            "description": "The reason in a sentence, with what to do.",
        },
        "lastTransitionTime": {
            "type": "string",
            "format": "date-time",
            "description": "When the status last changed.",
        },
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "description": "The generation of the object that this condition describes.",
        },
    },
}

Conditions = Annotated[
    list[Json],
    WithJsonSchema({"type": "array", "maxItems": 16, **keyed("type"), "items": _CONDITION}),
]
"""Conditions by the Kubernetes API conventions."""
