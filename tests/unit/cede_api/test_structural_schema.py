"""The schema of pydantic is rewritten into a structural one, or refused with the field's path."""

from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, create_model

from cede.api.crd_schema import ATOMIC, keyed
from cede.api.objects import Json
from cede.api.structural_schema import structural


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


def field_schema(type_: Any) -> Json:
    """The schema of a field of this type."""
    model = create_model("Model", field=(type_, ...))
    schema: Json = structural(model.model_json_schema(), kind="Model")["properties"]["field"]
    return schema


@pytest.mark.parametrize(("type_", "expected"), CASES)
def test_the_schema_of_pydantic_is_rewritten(type_: Any, expected: Json) -> None:
    assert field_schema(type_) == expected


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
def test_a_type_without_a_structural_form_is_refused_with_its_path(type_: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        field_schema(type_)
    assert "Model.field" in str(refused.value)
