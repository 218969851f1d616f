"""PURE. Turns a pydantic model into a CustomResourceDefinition."""

from collections.abc import Iterable, Iterator

from pydantic import BaseModel

from cede.api.crd_schema import Column, Crd, rules
from cede.api.objects import Json
from cede.api.structural_schema import structural


def definition(model: type[BaseModel]) -> Json:
    """The CustomResourceDefinition of a model that has `CRD`, the field `spec` and maybe `status`.

    Raises ValueError that names the field for which there is no structural schema.
    """
    crd: Crd = vars(model)["CRD"]
    kind = crd.kind
    kind_names: Json = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
    }
    if crd.short_names:
        kind_names["shortNames"] = list(crd.short_names)
    kind_names["categories"] = ["cede"]
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in crd.columns],
        "schema": {"openAPIV3Schema": _object_schema(model, crd)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": kind_names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }


def missing_fields(wanted: Json, served: Json) -> list[str]:
    """The fields that the API server drops, such as `status.targets.step`, by two definitions of
    one kind."""
    return sorted(_missing(_schema(wanted), _schema(served), ""))


def _schema(crd: Json) -> Json:
    """Of the version that is stored."""
    [schema, *_] = [
        version.get("schema", {}).get("openAPIV3Schema", {})
        for version in crd["spec"]["versions"]
        if version["storage"]
    ]
    return dict(schema)


def _missing(wanted: Json, served: Json, path: str) -> Iterator[str]:
    properties = served.get("properties", {})
    for name, schema in wanted.get("properties", {}).items():
        if name in properties:
            yield from _missing(schema, properties[name], f"{path}{name}.")
        else:
            yield f"{path}{name}"
    if "items" in wanted:
        yield from _missing(wanted["items"], served.get("items", {}), path)


def _column(column: Column) -> Json:
    body: Json = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        body["description"] = column.description
    if column.priority:
        body["priority"] = column.priority
    return body


def _object_schema(model: type[BaseModel], crd: Crd) -> Json:
    """The schema of the whole object: ours for spec and status, the server's for its metadata."""
    generated = model.model_json_schema()
    fields = {name: value for name, value in generated["properties"].items() if name != "metadata"}
    own = structural({**generated, "properties": fields}, kind=crd.kind.kind)
    schema: Json = {
        "type": "object",
        "description": crd.description or own.get("description", ""),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            **own["properties"],
        },
    }
    schema["properties"].get("status", {}).pop("default", None)
    required = [name for name in own.get("required", []) if name != "metadata"]
    if required:
        schema["required"] = required
    root_rules = [*_rules(crd.rules), *map(_on_creation, _rules(crd.creation_rules))]
    if root_rules:
        schema["x-kubernetes-validations"] = root_rules
    return schema


def _rules(pairs: Iterable[tuple[str, str]]) -> list[Json]:
    return list(rules(*pairs)["x-kubernetes-validations"])


def _on_creation(rule: Json) -> Json:
    """The rule for an object that is not there yet: without `optionalOldSelf`, the API server asks
    a rule with `oldSelf` at updates only."""
    expression = f"oldSelf.hasValue() || {rule['rule']}"
    return rule | {"rule": expression, "optionalOldSelf": True}
