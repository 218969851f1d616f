"""The messages inside a job survive the wire, and what is no message is refused in one line."""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import partial
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime import json_codec, messages
from elastic_runtime.agent.coordination import CoordinatorReply, MemberReport, StacksReply
from elastic_runtime.messages import (
    AgentMessage,
    WorkerMessage,
    decode_agent_message,
    decode_worker_message,
    encode_line,
)

WHOLE = st.integers(0, json_codec.MAX_NUMBER)
TEXT = st.text(max_size=5)
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: WHOLE,
    float: st.floats(0, 1e9),
    str: TEXT,
    tuple[int, ...]: st.lists(WHOLE, max_size=4).map(tuple),
    tuple[str, ...]: st.lists(TEXT, max_size=4).map(tuple),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
LINES = ((decode_worker_message, WorkerMessage), (decode_agent_message, AgentMessage))
BODIES = (MemberReport, CoordinatorReply, StacksReply)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(kind, **{name: values_of(hint) for name, hint in hints.items()})
    if NoneType in get_args(kind):
        return st.none() | values_of(get_args(kind)[0])
    return BY_TYPE[kind]


def any_of(classes: tuple[type, ...]) -> st.SearchStrategy[Any]:
    return st.one_of(*map(values_of, classes))


def complaint(decode: Callable[[], object]) -> str:
    """Why it raises ValueError; empty if it does not. Any other error fails the test."""
    try:
        decode()
    except ValueError as error:
        return str(error)
    return ""


@given(any_of(get_args(WorkerMessage)))
def test_rank_to_agent_round_trip(message: WorkerMessage) -> None:
    line = encode_line(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_worker_message(line) == message


@given(any_of(get_args(AgentMessage)))
def test_agent_to_rank_round_trip(message: AgentMessage) -> None:
    assert decode_agent_message(encode_line(message)) == message


@given(any_of(BODIES))
def test_agent_and_pod_0_round_trip(message: Any) -> None:
    assert json_codec.decode(type(message), json_codec.encode(message)) == message


@given(st.binary(max_size=60) | JSON.map(json_codec.dump))
def test_anything_else_is_refused_in_one_line(body: bytes) -> None:
    for decode, _ in LINES:
        with pytest.raises(ValueError, match=r"\A[^\n]+\Z"):
            decode(body)
    for cls in BODIES:
        assert "\n" not in complaint(partial(json_codec.decode, cls, body))


@given(
    st.sampled_from([cls for _, kinds in LINES for cls in get_args(kinds)]),
    st.dictionaries(
        st.sampled_from(["generation", "step", "members", "record", "index", "seconds", "message"]),
        JSON,
    ),
)
def test_wrong_fields_are_refused_in_one_line(cls: type, values: dict[str, Any]) -> None:
    """A message is decoded or raises ValueError: no other error, whatever the fields are."""
    line = json_codec.dump({"kind": cls.__name__} | values)
    for decode, kinds in LINES:
        if cls not in get_args(kinds):
            assert complaint(partial(decode, line))
        assert "\n" not in complaint(partial(decode, line))


def test_unknown_fields_are_ignored_and_missing_ones_have_defaults() -> None:
    line = b'{"kind":"Formed","generation":3,"members":[0,1],"step":7,"of_tomorrow":{"x":1}}'
    assert decode_worker_message(line) == messages.Formed(3, (0, 1), 7)
    report = json_codec.decode(MemberReport, b'{"index":1,"incarnation":"a"}')
    assert report == MemberReport(1, "a")
    assert json_codec.decode(CoordinatorReply, b"{}") == CoordinatorReply()


def test_loss_may_be_any_number_and_progress_may_be_partial() -> None:
    for loss in (-3.5, 0.0, float("inf")):
        message = messages.StepCommitted(1, loss, 0.1)
        assert decode_worker_message(encode_line(message)) == message
    assert encode_line(messages.Progress(step=3)) == b'{"kind":"Progress","step":3}\n'


def test_kinds_are_distinct() -> None:
    kinds = [cls.__name__ for _, union in LINES for cls in get_args(union)]
    assert len(kinds) == len(set(kinds))
