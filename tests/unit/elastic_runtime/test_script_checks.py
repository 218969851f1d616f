"""Mistakes in what a script passes to its session are reported in one line that names the cure.

Mistakes in the body of a step: training/test_step.py.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from elastic_runtime import Session
from tests.builders.sessions import small_model, small_session

# --- when the session is created ------------------------------------------------------------------


def frozen_model() -> torch.nn.Module:
    return small_model().requires_grad_(False)


def plateau_scheduler() -> torch.optim.lr_scheduler.ReduceLROnPlateau:
    optimizer = torch.optim.SGD(small_model().parameters())
    return torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {"samples": 0},
            "samples is 0: give the length of the dataset, at least 1",
            id="no samples",
        ),
        pytest.param({"samples": -3}, "samples is -3", id="fewer than no samples"),
        pytest.param(
            {"micro_batches": 0},
            "micro_batches is 0: give a whole number, at least 1",
            id="no micro-batches",
        ),
        pytest.param(
            {"micro_batches": 32 / 4},
            "micro_batches is 8.0: give a whole number",
            id="part of a micro-batch",
        ),
        pytest.param({"micro_batch_size": 0}, "micro_batch_size is 0", id="empty micro-batches"),
        pytest.param(
            {"save_every": -1},
            "save_every is -1: give a number of steps, or 0",
            id="a negative interval",
        ),
        pytest.param(
            {"local_checkpoint": "disk", "checkpoint": "shared"},
            "local_save_every is 0: give the number of steps between two saves",
            id="a local directory without an interval",
        ),
        pytest.param(
            {"local_save_every": 5},
            "local_save_every is 5 without local_checkpoint: set local_checkpoint",
            id="an interval without a local directory",
        ),
        pytest.param(
            {"local_checkpoint": "save", "checkpoint": "save", "local_save_every": 5},
            "checkpoint and local_checkpoint are both save: set checkpoint",
            id="one directory for both",
        ),
        pytest.param(
            {"local_checkpoint": "disk", "local_save_every": 5},
            "local_checkpoint is set without checkpoint",
            id="a local directory alone",
        ),
        pytest.param(
            {"optimizer": torch.optim.SGD(small_model().parameters())},
            "2 of the optimizer's 2 tensors are not parameters of the model",
            id="another model's optimizer",
        ),
        pytest.param(
            {"model": frozen_model()}, "no parameter that requires a gradient", id="frozen model"
        ),
        pytest.param(
            {"model": torch.nn.DataParallel(small_model())},
            "the model is wrapped in DataParallel: pass the model itself",
            id="wrapped model",
        ),
        pytest.param(
            {"lr_schedulers": [plateau_scheduler()]},
            "ReduceLROnPlateau needs a metric, .*: use a scheduler that depends on the step",
            id="plateau",
        ),
        pytest.param(
            {"samples": 0, "micro_batches": 0},
            "samples is 0.*; micro_batches is 0",
            id="all mistakes at once",
        ),
    ],
)
def test_mistakes_in_the_arguments_are_reported(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        small_session(**options)
    assert "\n" not in str(raised.value)


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
            "other parameters than when the session was created",
            id="a parameter replaced",
        ),
        pytest.param(
            add_parameter,
            "other parameters than when the session was created",
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
