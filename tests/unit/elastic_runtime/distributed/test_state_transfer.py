"""A state arrives completely, in the live tensors where they fit."""

from typing import Any

import torch

from elastic_runtime.distributed import state_transfer
from tests.fakes.state_wire import StateWire


def transfer(state: dict[str, Any], live: dict[str, Any] | None = None) -> dict[str, Any]:
    """The state as it is received by a rank that has the state `live`."""
    wire = StateWire()
    state_transfer.send(wire.group, state, 1)
    return state_transfer.receive(wire.group, 0, live)


def test_all_of_a_state_arrives() -> None:
    state: dict[str, Any] = {
        "a": torch.arange(6).view(2, 3),
        "none": torch.empty(0, 4),
        "list": [torch.tensor(1.5), {"b": (1, "x", None)}],
    }
    received = transfer(state)
    assert torch.equal(received["a"], state["a"])
    assert received["none"].shape == (0, 4)
    assert float(received["list"][0]) == 1.5
    assert received["list"][1] == {"b": (1, "x", None)}


def test_a_tensor_is_received_into_the_live_one_of_its_name_shape_and_type() -> None:
    live = {
        "a": torch.zeros(2, 3),
        "b": torch.zeros(4),
        "c": torch.zeros(3, 2).t(),
        "d": torch.zeros(2),
        "e": torch.zeros(2),
    }
    state = {
        "a": torch.ones(2, 3),
        "b": torch.ones(5),
        "c": torch.ones(2, 3),
        "d": torch.ones(2, dtype=torch.float64),
        "f": torch.ones(2),
    }
    received = transfer(state, live)
    for name, tensor in state.items():
        assert torch.equal(received[name], tensor), name
    reused = {
        name
        for name, tensor in live.items()
        if name in received and received[name].data_ptr() == tensor.data_ptr()
    }
    assert reused == {"a"}
    assert all(not tensor.any() for name, tensor in live.items() if name != "a")


def test_two_names_of_one_live_tensor_receive_two_values() -> None:
    shared = torch.zeros(2)
    received = transfer(
        {"a": torch.ones(2), "b": torch.full((2,), 2.0)}, {"a": shared, "b": shared}
    )
    assert received["a"].tolist() == [1.0, 1.0]
    assert received["b"].tolist() == [2.0, 2.0]


def test_a_state_arrives_where_the_live_one_has_fewer_or_more_tensors() -> None:
    state = {"a": torch.ones(2), "b": torch.ones(3)}
    for live in (
        {"a": torch.zeros(2)},
        {"a": torch.zeros(2), "b": torch.zeros(3), "c": torch.zeros(1)},
        {},
    ):
        received = transfer(state, live)
        assert all(torch.equal(received[name], tensor) for name, tensor in state.items())
