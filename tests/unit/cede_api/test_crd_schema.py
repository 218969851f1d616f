"""From model to CRD: structural by the server's rules, or refused with the field; and what is
committed is what is generated."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, Field, create_model

from cede.api.crd_schema import ATOMIC, Crd, Quantity, definition, keyed, rules, structural
from cede.api.objects import Json, Kind
from deploy.crds import generate

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


def schemas() -> list[Any]:
    found = []
    for model in generate.MODELS:
        [version] = definition(model)["spec"]["versions"]
        found.append(pytest.param(version["schema"]["openAPIV3Schema"], id=model.__name__))
    return found


@pytest.mark.parametrize("schema", schemas())
def test_our_schemas_keep_the_structural_rules(schema: Json) -> None:
    for path, node in nodes(schema, ""):
        if node.get("x-kubernetes-int-or-string"):
            assert [case["type"] for case in node["anyOf"]] == ["integer", "string"], path
            continue
        unknown = {key for key in node if not key.startswith("x-kubernetes-")} - NODE_KEYS
        assert not unknown, path
        assert isinstance(node["type"], str), path
        assert not ("properties" in node and "additionalProperties" in node), path


@pytest.mark.parametrize("schema", schemas())
def test_everything_is_bounded_so_that_rules_stay_cheap(schema: Json) -> None:
    for path, node in nodes(schema["properties"]["spec"], "spec"):
        match node.get("type"):
            case "array":
                assert "maxItems" in node, path
                assert node["x-kubernetes-list-type"] in ("map", "set", "atomic"), path
            case "string":
                assert {"maxLength", "enum"} & node.keys(), path
            case "object" if "additionalProperties" in node:
                assert "maxProperties" in node, path


@pytest.mark.parametrize("schema", schemas())
def test_every_field_explains_itself(schema: Json) -> None:
    for part in ("spec", "status"):
        for path, node in nodes(schema["properties"][part], part):
            if not path.endswith("[additionalProperties]") and not path.endswith(
                "nodeLabels[items]"
            ):
                assert node.get("description", "").endswith(".") or path.endswith("[items]"), path


@pytest.mark.parametrize("schema", schemas())
def test_every_rule_says_what_to_write_instead(schema: Json) -> None:
    for path, node in nodes(schema, ""):
        for rule in node.get("x-kubernetes-validations", []):
            assert ":" in rule["message"], f"{path}: {rule['message']!r} names no cure"


def test_the_committed_crds_are_the_generated_ones() -> None:
    for name, text in generate.files().items():
        assert (generate.FOLDER / name).read_text() == text, (
            f"{name} is old: run python -m deploy.crds.generate"
        )


class Inner(BaseModel):
    """Inside."""

    name: str = Field(max_length=9)


CASES: list[Any] = [
    pytest.param(int | None, {"type": "integer"}, id="optional is absent, not null"),
    pytest.param(Literal["x"], {"type": "string", "enum": ["x"]}, id="one literal"),
    pytest.param(Literal["x", "y"], {"type": "string", "enum": ["x", "y"]}, id="literals"),
    pytest.param(
        Annotated[int, Field(gt=0, lt=9)],
        {
            "type": "integer",
            "minimum": 0,
            "exclusiveMinimum": True,
            "maximum": 9,
            "exclusiveMaximum": True,
        },
        id="exclusive bounds are booleans",
    ),
    pytest.param(
        Annotated[set[Literal["a"]], Field(max_length=2)],
        {
            "type": "array",
            "maxItems": 2,
            "x-kubernetes-list-type": "set",
            "items": {"type": "string", "enum": ["a"]},
        },
        id="a set",
    ),
    pytest.param(
        Annotated[list[Inner], Field(max_length=2, json_schema_extra=keyed("name"))],
        {
            "type": "array",
            "maxItems": 2,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "description": "Inside.",
                "required": ["name"],
                "properties": {"name": {"type": "string", "maxLength": 9}},
            },
        },
        id="references are inlined",
    ),
    pytest.param(
        Annotated[dict[str, Annotated[str, Field(max_length=3)]], Field(max_length=2)],
        {
            "type": "object",
            "maxProperties": 2,
            "additionalProperties": {"type": "string", "maxLength": 3},
        },
        id="a map",
    ),
]


def of(type_: Any) -> Json:
    """The schema of one field of this type."""
    model = create_model("Model", field=(type_, ...))
    found: Json = structural(model.model_json_schema(), kind="Model")["properties"]["field"]
    return found


@pytest.mark.parametrize(("type_", "expected"), CASES)
def test_what_pydantic_says_is_rewritten(type_: Any, expected: Json) -> None:
    assert of(type_) == expected


class Recursive(BaseModel):
    below: "list[Recursive]" = Field(default_factory=list, max_length=3, json_schema_extra=ATOMIC)


@pytest.mark.parametrize(
    ("type_", "why"),
    [
        pytest.param(int | bool, "union of 2 types", id="union"),
        pytest.param(float, "is a float", id="float"),
        pytest.param(Any, "has no type", id="anything"),
        pytest.param(str, "text without max_length", id="unbounded text"),
        pytest.param(
            Annotated[list[int], Field(json_schema_extra=ATOMIC)],
            "list without max_length",
            id="unbounded list",
        ),
        pytest.param(
            Annotated[list[int], Field(max_length=3)], "map, a set or atomic", id="list of no kind"
        ),
        pytest.param(
            Annotated[dict[str, int], Field()], "map without max_length", id="unbounded map"
        ),
        pytest.param(dict[str, Any], "object of anything", id="object of anything"),
        pytest.param(tuple[int, int], "tuple", id="tuple"),
        pytest.param(
            Annotated[list, Field(max_length=1, json_schema_extra=ATOMIC)],
            "no type",
            id="list of anything",
        ),
        pytest.param(timedelta, "integer seconds", id="duration"),
        pytest.param(Recursive, "cannot recurse", id="recursion"),
    ],
)
def test_what_cannot_be_structural_is_refused_with_the_field(type_: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        of(type_)
    assert "Model.field" in str(refused.value)


def test_a_quantity_is_a_number_or_text_and_text_once_parsed() -> None:
    class Model(BaseModel):
        cpu: Quantity = "0"

    assert (
        structural(Model.model_json_schema(), kind="Model")["properties"]["cpu"][
            "x-kubernetes-int-or-string"
        ]
        is True
    )
    assert (Model.model_validate({"cpu": 4}).cpu, Model.model_validate({"cpu": "500m"}).cpu) == (
        "4",
        "500m",
    )


def test_a_definition_carries_the_facts_of_its_model() -> None:
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
