"""From a pydantic model to a CustomResourceDefinition: rewrites that make its schema structural, or
a refusal with the field.

The rules are those of apiextensions (`apiserver/schema/validation.go`): one type a node, no
references, no null.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, WithJsonSchema

from cede.api.objects import Json, Kind


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
    """What a CustomResourceDefinition says beside its schema; a model carries it as `CRD`."""

    kind: Kind
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    # (CEL expression, what to write instead), on the whole object
    rules: tuple[tuple[str, str], ...] = ()
    description: str = ""


def rules(*pairs: tuple[str, str]) -> Json:
    """CEL rules (expression, sentence) for a field's or a model's `json_schema_extra`."""
    return {
        "x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]
    }


def keyed(*keys: str) -> Json:
    """A list that is a map by these keys: the server refuses two entries of one key, and appliers
    share it by entry."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


ATOMIC: Json = {"x-kubernetes-list-type": "atomic"}

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
                    (
                        "type(self) == int ? self >= 0 : isQuantity(self) && "
                        "quantity(self).compareTo(quantity('0')) >= 0"
                    ),
                    "this is no amount: write it like 4, 500m or 16Gi, and not below zero",
                )
            ),
        }
    ),
]
"""An amount as Kubernetes writes it: `4`, `500m`, `16Gi`; always text once parsed."""

Conditions = Annotated[
    list[Json],
    WithJsonSchema(
        {
            "type": "array",
            "maxItems": 16,
            **keyed("type"),
            "items": {
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
                        "description": "Whether it holds.",
                    },
                    "reason": {
                        "type": "string",
                        "maxLength": 1024,
                        "description": "Why, in one word.",
                    },
                    "message": {
                        "type": "string",
                        "maxLength": 32768,
                        "description": "Why, in a sentence, and what to do.",
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
                        "description": "The generation of the object this was said of.",
                    },
                },
            },
        }
    ),
]
"""Conditions by the Kubernetes API conventions."""


def definition(model: type[BaseModel]) -> Json:
    """The CustomResourceDefinition of a model that carries `CRD` and has the fields `spec` and,
    maybe, `status`.

    Raises ValueError naming the field that cannot be structural.
    """
    crd: Crd = vars(model)["CRD"]
    kind = crd.kind
    short_names = {"shortNames": list(crd.short_names)} if crd.short_names else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                **short_names,
                "categories": ["cede"],
            },
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(column) for column in crd.columns],
                    "schema": {"openAPIV3Schema": _root(model, crd)},
                }
            ],
        },
    }


def _column(column: Column) -> Json:
    body: Json = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        body["description"] = column.description
    return body | ({"priority": column.priority} if column.priority else {})


def _root(model: type[BaseModel], crd: Crd) -> Json:
    raw = model.model_json_schema()
    whole = structural(
        {**raw, "properties": {k: v for k, v in raw["properties"].items() if k != "metadata"}},
        kind=crd.kind.kind,
    )
    text = {"type": "string"}
    root: Json = {"type": "object", "description": crd.description or whole.get("description", "")}
    root["properties"] = {
        "apiVersion": text,
        "kind": text,
        "metadata": {"type": "object"},
        **whole["properties"],
    }
    root["properties"].get("status", {}).pop("default", None)
    if required := [name for name in whole.get("required", []) if name != "metadata"]:
        root["required"] = required
    return root | (rules(*crd.rules) if crd.rules else {})


_KEPT = {
    "type",
    "description",
    "format",
    "enum",
    "pattern",
    "default",
    "required",
    "multipleOf",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
}
_DROPPED = {
    "title",
    "$defs",
    "discriminator",
    "examples",
    "const",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "uniqueItems",
}


def structural(schema: Json, *, kind: str) -> Json:
    """The schema as a server accepts it: inlined, one type a node, every list and text bounded.

    `kind` opens the path in the error that is raised for what has no structural form.
    """
    return _node(schema, schema.get("$defs", {}), kind, ())


def _node(schema: Json, defs: Mapping[str, Json], path: str, above: tuple[str, ...]) -> Json:
    if reference := schema.get("$ref"):
        name = reference.rsplit("/", 1)[-1]
        if name in above:
            raise ValueError(f"{path} refers to {name} inside {name}: a CRD schema cannot recurse")
        own = {k: v for k, v in schema.items() if k != "$ref"}
        return _node({**defs[name], **own}, defs, path, (*above, name))
    if schema.get("x-kubernetes-int-or-string"):
        return {
            k: v for k, v in schema.items() if k != "title" and not (k == "default" and v is None)
        }
    if "anyOf" in schema or "oneOf" in schema or "allOf" in schema:
        return _node(_without_null(schema, path), defs, path, above)
    return _one_type(schema, defs, path, above)


def _without_null(schema: Json, path: str) -> Json:
    """`X | None` is an X that may be absent; any other union is refused."""
    cases = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf") or []
    real = [case for case in cases if case.get("type") != "null"]
    if len(real) != 1:
        raise ValueError(
            f"{path} is a union of {len(real)} types: give each case an optional field and say "
            f"which with a CEL rule"
        )
    own = {
        k: v
        for k, v in schema.items()
        if k not in ("anyOf", "oneOf", "allOf") and not (k == "default" and v is None)
    }
    return {**real[0], **own}


def _one_type(schema: Json, defs: Mapping[str, Json], path: str, above: tuple[str, ...]) -> Json:
    out = {
        key: value
        for key, value in schema.items()
        if key in _KEPT or key.startswith("x-kubernetes-")
    }
    if "const" in schema:
        out["enum"] = [schema["const"]]
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if exclusive in schema:
            out |= {bound: schema[exclusive], exclusive: True}
    if "prefixItems" in schema:
        raise ValueError(f"{path} is a tuple: use an object with names")
    if (
        unknown := schema.keys()
        - _KEPT
        - _DROPPED
        - {"properties", "items", "additionalProperties"}
        - out.keys()
    ):
        raise ValueError(
            f"{path} uses {', '.join(sorted(unknown))}, which a CRD schema does not know"
        )
    if schema.get("format") == "duration":
        raise ValueError(
            f"{path} is a duration, which pydantic and Go spell differently: use integer seconds"
        )
    match schema.get("type"):
        case "object":
            out |= _object(schema, defs, path, above)
        case "array":
            out |= _array(schema, defs, path, above)
        case "string":
            if not {"maxLength", "enum", "format"} & out.keys():
                raise ValueError(
                    f"{path} is text without max_length: unbounded text makes CEL rules too "
                    f"dear "
                    f"for the server"
                )
        case "integer" | "boolean":
            pass
        case "number":
            raise ValueError(f"{path} is a float: use an integer or a quantity")
        case _ if not schema.get("x-kubernetes-preserve-unknown-fields"):
            raise ValueError(
                f"{path} has no type: say which, or x-kubernetes-preserve-unknown-fields"
            )
    return out


def _object(schema: Json, defs: Mapping[str, Json], path: str, above: tuple[str, ...]) -> Json:
    if "properties" in schema:
        fields = {
            name: _node(field, defs, f"{path}.{name}", above)
            for name, field in schema["properties"].items()
        }
        return {"properties": fields}
    values: Any = schema.get("additionalProperties")
    if not isinstance(values, Mapping) or not values:
        raise ValueError(
            f"{path} is an object of anything: give it a model, or the type of its values"
        )
    if "maxProperties" not in schema:
        raise ValueError(f"{path} is a map without max_length")
    return {"additionalProperties": _node(dict(values), defs, f"{path}.*", above)}


def _array(schema: Json, defs: Mapping[str, Json], path: str, above: tuple[str, ...]) -> Json:
    if "maxItems" not in schema:
        raise ValueError(f"{path} is a list without max_length")
    kind = "set" if schema.get("uniqueItems") else schema.get("x-kubernetes-list-type")
    if not kind:
        raise ValueError(
            f"{path} does not say whether it is a map, a set or atomic (schema.keyed, "
            f"schema.ATOMIC)"
        )
    return {
        "x-kubernetes-list-type": kind,
        "items": _node(schema["items"], defs, f"{path}[]", above),
    }
