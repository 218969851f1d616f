"""Mistakes in what a script passes to its session are reported in one line that names the cure.

Mistakes in the body of a step: training/test_step.py.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from elastic_runtime import Session
from tests.builders.sessions import small_session

# --- when the first step begins -------------------------------------------------------------------


def convert(session: Session) -> None:
    session.model.to(torch.float64)


def replace_parameter(session: Session) -> None:
    session.model.weight = torch.nn.Parameter(torch.zeros(1, 2))


def add_parameter(session: Session) -> None:
    session.model.register_parameter("more", torch.nn.Parameter(torch.zeros(1)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            convert,
            "was torch.float32 on cpu when the session was created and is now torch.float64 on "
            "cpu: move or convert it before",
            id="converted",
        ),
        pytest.param(
            replace_parameter,
            "parameter weight was replaced after the session was created, and a session trains",
            id="a parameter replaced",
        ),
        pytest.param(
            add_parameter,
            "parameter more was added after the session was created, and a session trains",
            id="a parameter added",
        ),
    ],
)
def test_a_model_that_changed_after_its_session_was_created_is_reported(
    change: Callable[[Session], None], message: str
) -> None:
    session = small_session()
    change(session)
    with pytest.raises(ValueError, match=message):
        next(session.steps(1))


def test_a_session_needs_data() -> None:
    with pytest.raises(ValueError, match="the session has no data: give samples=len"):
        next(small_session(samples=None).steps(1))


# --- stateful objects -----------------------------------------------------------------------------


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.value = state_dict["value"]


def test_a_stateful_object_needs_a_state_dict() -> None:
    with pytest.raises(
        ValueError,
        match=(
            r"dict in stateful=\[...\] has no state_dict and load_state_dict: pass an object that "
            r"has both"
        ),
    ):
        next(small_session(stateful=[{"best": 1.0}]).steps(1))


@pytest.mark.parametrize("value", [Holder(1), lambda: 1], ids=["object", "not even for pickle"])
def test_a_state_that_could_not_be_loaded_is_reported_before_the_first_step(value: Any) -> None:
    with pytest.raises(
        ValueError,
        match=(
            r"the state of Holder is not plain data .*: use numbers, strings, lists, dicts and "
            r"tensors only"
        ),
    ):
        next(small_session(stateful=[Holder(value)]).steps(1))


@pytest.mark.parametrize(
    "value", [{"a": [1, 2.5, "x", None, (True,)]}, torch.ones(2)], ids=["plain data", "tensor"]
)
def test_a_state_that_can_be_loaded_is_accepted(value: Any) -> None:
    next(small_session(stateful=[Holder(value)]).steps(1))
