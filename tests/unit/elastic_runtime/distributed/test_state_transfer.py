"""State from rank to rank: all of it arrives, in the memory that is there where it fits."""

from typing import Any

import torch

from elastic_runtime.distributed import state_transfer
from tests.fakes.state_wire import StateWire


def moved(state: dict[str, Any], live: dict[str, Any] | None = None) -> dict[str, Any]:
    wire = StateWire()
    state_transfer.send(wire.group, state, 1)
    return state_transfer.receive(wire.group, 0, live)


def test_all_of_a_state_arrives() -> None:
    state: dict[str, Any] = {
        "a": torch.arange(6).view(2, 3),
        "none": torch.empty(0, 4),
        "list": [torch.tensor(1.5), {"b": (1, "x", None)}],
    }
    found = moved(state)
    assert torch.equal(found["a"], state["a"])
    assert found["none"].shape == (0, 4)
    assert float(found["list"][0]) == 1.5
    assert found["list"][1] == {"b": (1, "x", None)}


def test_a_tensor_arrives_in_the_live_one_of_its_name_and_shape_and_type() -> None:
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
    found = moved(state, live)
    for name, tensor in state.items():
        assert torch.equal(found[name], tensor), name
    here = {
        name
        for name, tensor in live.items()
        if name in found and found[name].data_ptr() == tensor.data_ptr()
    }
    assert here == {"a"}
    assert all(not tensor.any() for name, tensor in live.items() if name != "a")


def test_a_state_arrives_where_there_is_less_or_more_of_one() -> None:
    state = {"a": torch.ones(2), "b": torch.ones(3)}
    for live in (
        {"a": torch.zeros(2)},
        {"a": torch.zeros(2), "b": torch.zeros(3), "c": torch.zeros(1)},
        {},
    ):
        found = moved(state, live)
        assert all(torch.equal(found[name], tensor) for name, tensor in state.items())
