"""State from rank to rank: all of it arrives, in the memory that is there where it fits."""

from typing import Any, cast

import pytest
import torch

from elastic_runtime import Session
from elastic_runtime.distributed import state_transfer
from elastic_runtime.distributed.group import Group


class Wire:
    """Both ends of a group of two, one after the other. `breaks`: after so many tensors the peer is
    gone."""

    def __init__(self, breaks: int | None = None) -> None:
        self._left: list[torch.Tensor] = []
        self._breaks = breaks
        self._calls = 0
        self.group = cast(Group, self)
        self.rank = 0

    def send(self, tensors: list[torch.Tensor], to: int) -> None:
        self._left += [t.clone() for t in tensors]

    def receive(self, tensors: list[torch.Tensor], source: int, first_tag: int = 0) -> None:
        for tensor in tensors:
            if self._breaks is not None and self._calls == self._breaks:
                raise RuntimeError("a peer is gone")
            tensor.copy_(self._left.pop(0))
            self._calls += 1

    def all_gather_object(self, said: Any) -> list[Any]:
        return [said]


def moved(state: dict[str, Any], live: dict[str, Any] | None = None) -> dict[str, Any]:
    wire = Wire()
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


def session() -> Session:
    net = torch.nn.Linear(3, 2)
    return Session(net, torch.optim.AdamW(net.parameters()), samples=10, micro_batches=1)


def sent(wire: Wire) -> Session:
    """A session that has trained, and its state on the wire."""
    one = session()
    for step in one.steps(1):
        for _ in step:
            step.backward(one.model(torch.ones(3)).sum())
    one.step = 7
    state_transfer.send(wire.group, one.state(), 1)
    return one


def test_a_state_that_was_received_is_the_senders() -> None:
    wire = Wire()
    here = session()
    there = sent(wire)
    here.receive(wire.group, 0)
    assert here.step == 7
    assert all(
        torch.equal(a, b)
        for a, b in zip(here.model.parameters(), there.model.parameters(), strict=True)
    )
    # whole: what rank 0 has is what a job without saves begins with
    assert not here.load(None)


def test_a_rank_whose_state_was_lost_on_the_way_has_none_and_begins_nothing_with_it() -> None:
    wire = Wire(breaks=4)
    here = session()
    here._has_state = True
    sent(wire)
    with pytest.raises(RuntimeError, match="a peer is gone"):
        here.receive(wire.group, 0)
    assert not here.stand().has_state
    with pytest.raises(
        LookupError,
        match=(
            "the state was lost while it moved, and there is no save of it to go back to: set "
            "save_every"
        ),
    ):
        here.load(None)
    again = Wire()
    sent(again)
    here.receive(again.group, 0)
    assert not here.load(None)
