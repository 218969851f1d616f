"""Decoding checks every field by its type, and a complaint names the field."""

import json
from dataclasses import dataclass, field

import pytest

from elastic_runtime import json_codec, messages
from elastic_runtime.agent.coordination import MemberReport

KINDS = {cls.__name__: cls for cls in (messages.Ready, messages.Broken, messages.Formed)}


@dataclass(frozen=True)
class Example:
    number: float = 0.0
    any_number: float = field(default=0.0, metadata=json_codec.ANY_NUMBER)
    flag: bool = False
    text: str = ""
    optional: int | None = None
    texts: tuple[str, ...] = ()


def test_none_is_left_out_and_comes_back_as_the_default() -> None:
    example = Example(number=1.5, text="a", optional=None, texts=("x", "y"))
    body = json_codec.encode(example)
    assert "optional" not in json.loads(body)
    assert json_codec.decode(Example, body) == example
    assert json_codec.decode(Example, b'{"optional": null}') == Example()


@pytest.mark.parametrize(
    "values",
    [
        {"number": -1.0},
        {"number": float("nan")},
        {"number": True},
        {"flag": 1},
        {"text": 1},
        {"text": "x" * 11},
        {"optional": "1"},
        {"texts": ["x", 1]},
        {"texts": "x"},
        {"texts": ["x"] * (json_codec.MAX_LIST + 1)},
        {"number": 2**60},
        {"any_number": -(10**400)},
    ],
    ids=lambda values: json.dumps(values)[:40],
)
def test_wrong_type_is_refused(values: dict[str, object]) -> None:
    (name,) = values
    with pytest.raises(ValueError, match=f"^{name} is .*: it must be "):
        json_codec.from_dict(Example, values, max_text=10)


@pytest.mark.parametrize("number", [-1.0, float("inf"), 0])
def test_field_of_any_number(number: float) -> None:
    decoded = json_codec.from_dict(Example, {"any_number": number}).any_number
    assert (decoded, type(decoded)) == (number, float)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        pytest.param(b'{"step":1}', "the kind is 'None': it must be one of Ready", id="no kind"),
        pytest.param(b'{"kind":"Leave"}', "the kind is 'Leave'", id="message of an agent"),
        pytest.param(b'{"kind":["Ready"]}', "the kind is ", id="kind is a list"),
        pytest.param(b'{"kind":"Broken"}', "not a Broken: generation is missing", id="missing"),
        pytest.param(
            b'{"kind":"Broken","generation":"3"}',
            "generation is '3': it must be a whole number from 0 on",
            id="wrong type",
        ),
        pytest.param(
            b'{"kind":"Broken","generation":true}', "it must be a whole number", id="a bool"
        ),
        pytest.param(
            b'{"kind":"Formed","generation":1,"members":[0,-1],"step":1}',
            "members is .* a list of at most 4,096 whole numbers",
            id="negative member",
        ),
        pytest.param(b"[]", "a JSON object is needed", id="a list"),
        pytest.param(b"[" * 100_000, "nested too deeply|Expecting", id="nested too deeply"),
    ],
)
def test_complaint_names_the_field(line: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        json_codec.decode_line(KINDS, line)


def test_nested_message_is_checked_too() -> None:
    body = json.dumps({"index": 1, "incarnation": "a", "store": {"generation": 3}}).encode()
    with pytest.raises(ValueError, match="not a StoreOpened: port is missing"):
        json_codec.decode(MemberReport, body)
