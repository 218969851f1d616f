"""Our CRDs are structural by the rules of the API server, bounded, and explain themselves."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, Field

from cede.api.cession import Cession
from cede.api.crd_definition import definition, missing_fields
from cede.api.crd_schema import Crd, rules
from cede.api.objects import Json, Kind
from deploy.crds.generate import MODELS

NODE_KEYS = {
    "type",
    "description",
    "format",
    "enum",
    "pattern",
    "default",
    "required",
    "properties",
    "items",
    "additionalProperties",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "maxProperties",
}


def nodes(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    """Every node of a schema, with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[{key}]")


def object_schema(model: type[BaseModel]) -> Json:
    [version] = definition(model)["spec"]["versions"]
    schema: Json = version["schema"]["openAPIV3Schema"]
    return schema


SCHEMAS: list[Any] = [pytest.param(object_schema(model), id=model.__name__) for model in MODELS]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_our_schemas_are_structural(schema: Json) -> None:
    for path, node in nodes(schema, ""):
        if node.get("x-kubernetes-int-or-string"):
            assert [case["type"] for case in node["anyOf"]] == ["integer", "string"], path
            continue
        unknown = {key for key in node if not key.startswith("x-kubernetes-")} - NODE_KEYS
        assert not unknown, path
        assert isinstance(node["type"], str), path
        assert not ("properties" in node and "additionalProperties" in node), path


@pytest.mark.parametrize("schema", SCHEMAS)
def test_all_lists_maps_and_text_are_bounded(schema: Json) -> None:
    for path, node in nodes(schema["properties"]["spec"], "spec"):
        match node.get("type"):
            case "array":
                assert "maxItems" in node, path
                assert node["x-kubernetes-list-type"] in ("map", "set", "atomic"), path
            case "string":
                assert {"maxLength", "enum"} & node.keys(), path
            case "object" if "additionalProperties" in node:
                assert "maxProperties" in node, path


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_field_explains_itself(schema: Json) -> None:
    for part in ("spec", "status"):
        for path, node in nodes(schema["properties"][part], part):
            if not path.endswith("[additionalProperties]") and not path.endswith(
                "nodeLabels[items]"
            ):
                assert node.get("description", "").endswith(".") or path.endswith("[items]"), path


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_rule_has_a_cure(schema: Json) -> None:
    for path, node in nodes(schema, ""):
        for rule in node.get("x-kubernetes-validations", []):
            assert ":" in rule["message"], f"{path}: {rule['message']!r} names no cure"


class Inner(BaseModel):
    name: str = Field(max_length=9)


def test_a_definition_has_the_names_and_rules_of_its_model() -> None:
    class Thing(BaseModel):
        """A thing."""

        CRD: ClassVar[Crd] = Crd(
            Kind("x.dev", "v1", "things", "Thing"), ("th",), rules=(("true", "never: shown"),)
        )
        spec: Inner

    crd = definition(Thing)
    assert crd["metadata"]["name"] == "things.x.dev"
    assert (crd["spec"]["scope"], crd["spec"]["names"]["shortNames"]) == ("Namespaced", ["th"])
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert (schema["description"], schema["required"]) == ("A thing.", ["spec"])
    assert (
        schema["x-kubernetes-validations"]
        == rules(("true", "never: shown"))["x-kubernetes-validations"]
    )


def test_the_fields_that_an_older_crd_does_not_have_are_known() -> None:
    wanted = definition(Cession)
    assert missing_fields(wanted, definition(Cession)) == []
    old = definition(Cession)
    [version] = old["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]
    del fields["status"]["properties"]["targets"]["items"]["properties"]["completed"]
    del fields["spec"]["properties"]["alternatives"]
    assert missing_fields(wanted, old) == ["spec.alternatives", "status.targets.completed"]
    assert missing_fields(old, wanted) == [], "a newer one keeps all"
