"""PURE. Rewrites the JSON schema of a pydantic model into one that a CRD may have.

The rules are those of apiextensions (`apiserver/schema/validation.go`): each node has one type,
there are no references, and nothing is null.
"""

from collections.abc import Mapping
from typing import Any

from cede.api.objects import Json

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
# each of these is either rewritten below or has no meaning for the API server
_REWRITTEN = {
    "title",
    "$defs",
    "discriminator",
    "examples",
    "const",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "uniqueItems",
    "properties",
    "items",
    "additionalProperties",
}
_UNIONS = ("anyOf", "oneOf", "allOf")


def structural(schema: Json, *, kind: str) -> Json:
    """The schema with references inlined, one type for each node, and all lists and text bounded.

    Raises ValueError that begins with `kind` and the path of a field that has no such form.
    """
    return _node(schema, schema.get("$defs", {}), kind, ())


def _node(
    schema: Json, definitions: Mapping[str, Json], path: str, ancestors: tuple[str, ...]
) -> Json:
    """`ancestors` are the models that contain this node."""
    if reference := schema.get("$ref"):
        name = reference.rsplit("/", 1)[-1]
        if name in ancestors:
            raise ValueError(f"{path} refers to {name} inside {name}: a CRD schema cannot recurse")
        own = {key: value for key, value in schema.items() if key != "$ref"}
        return _node({**definitions[name], **own}, definitions, path, (*ancestors, name))
    if schema.get("x-kubernetes-int-or-string"):
        return {
            key: value for key, value in _without_null_default(schema).items() if key != "title"
        }
    if any(union in schema for union in _UNIONS):
        return _node(_without_null(schema, path), definitions, path, ancestors)
    return _typed_node(schema, definitions, path, ancestors)


def _without_null(schema: Json, path: str) -> Json:
    """`X | None` becomes an X that may be absent. Raises ValueError for other unions."""
    cases: list[Json] = next((schema[union] for union in _UNIONS if schema.get(union)), [])
    types = [case for case in cases if case.get("type") != "null"]
    if len(types) != 1:
        raise ValueError(
            f"{path} is a union of {len(types)} types: give each case an optional field, and say "
            f"with a CEL rule which one is required"
        )
    own = {key: value for key, value in _without_null_default(schema).items() if key not in _UNIONS}
    return {**types[0], **own}


def _without_null_default(schema: Json) -> Json:
    return {key: value for key, value in schema.items() if not (key == "default" and value is None)}


def _typed_node(
    schema: Json, definitions: Mapping[str, Json], path: str, ancestors: tuple[str, ...]
) -> Json:
    node = _keywords(schema, path)
    match schema.get("type"):
        case "object":
            node |= _object(schema, definitions, path, ancestors)
        case "array":
            node |= _array(schema, definitions, path, ancestors)
        case "string":
            if not {"maxLength", "enum", "format"} & node.keys():
                raise ValueError(
                    f"{path} is text without max_length: give it one, for the API server refuses "
                    f"CEL rules on unbounded text"
                )
        case "integer" | "boolean":
            pass
        case "number":
            raise ValueError(f"{path} is a float: use an integer or a quantity")
        case _ if not schema.get("x-kubernetes-preserve-unknown-fields"):
            raise ValueError(
                f"{path} has no type: give it one, or x-kubernetes-preserve-unknown-fields"
            )
    return node


def _keywords(schema: Json, path: str) -> Json:
    """The keywords of one node other than its children. Raises ValueError for unsupported ones."""
    if "prefixItems" in schema:
        raise ValueError(f"{path} is a tuple: use an object with named fields")
    if schema.get("format") == "duration":
        raise ValueError(
            f"{path} is a duration, which pydantic and Go write differently: use integer seconds"
        )
    node = {
        key: value
        for key, value in schema.items()
        if key in _KEPT or key.startswith("x-kubernetes-")
    }
    unknown = schema.keys() - _REWRITTEN - node.keys()
    if unknown:
        raise ValueError(
            f"{path} uses {', '.join(sorted(unknown))}, which a CRD schema does not support"
        )
    if "const" in schema:
        node["enum"] = [schema["const"]]
    # OpenAPI 3.0: an exclusive bound is the bound with a flag
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if exclusive in schema:
            node |= {bound: schema[exclusive], exclusive: True}
    return node


def _object(
    schema: Json, definitions: Mapping[str, Json], path: str, ancestors: tuple[str, ...]
) -> Json:
    if "properties" in schema:
        fields = {
            name: _node(field, definitions, f"{path}.{name}", ancestors)
            for name, field in schema["properties"].items()
        }
        return {"properties": fields}
    values: Any = schema.get("additionalProperties")
    if not isinstance(values, Mapping) or not values:
        raise ValueError(
            f"{path} is an object of anything: give it a model, or the type of its values"
        )
    if "maxProperties" not in schema:
        raise ValueError(f"{path} is a map without max_length: give it one")
    return {"additionalProperties": _node(dict(values), definitions, f"{path}.*", ancestors)}


def _array(
    schema: Json, definitions: Mapping[str, Json], path: str, ancestors: tuple[str, ...]
) -> Json:
    if "maxItems" not in schema:
        raise ValueError(f"{path} is a list without max_length: give it one")
    list_type = "set" if schema.get("uniqueItems") else schema.get("x-kubernetes-list-type")
    if not list_type:
        raise ValueError(
            f"{path} does not say whether it is a map, a set or atomic: use crd_schema.keyed, "
            f"crd_schema.ATOMIC, or a Python set"
        )
    return {
        "x-kubernetes-list-type": list_type,
        "items": _node(schema["items"], definitions, f"{path}[]", ancestors),
    }
