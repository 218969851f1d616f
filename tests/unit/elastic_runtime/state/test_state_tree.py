"""A state is the same after it was taken apart and put together."""

import copy
import pickle
from typing import Any

import pytest
import torch

from elastic_runtime.state.state_tree import (
    can_hold,
    digest,
    flatten,
    meta_copy,
    named_tensors,
    pack,
    unflatten,
    unpack,
)

STATE: dict[str, Any] = {
    "model": {"w": torch.arange(6.0).view(2, 3)},
    "optimizer": {"state": {0: {"step": torch.tensor(3)}}, "betas": (0.9, 0.99)},
    "list": [1, None, "x", (torch.ones(2), 2)],
}


def test_a_state_is_put_together_from_its_skeleton_and_tensors() -> None:
    tensors: list[torch.Tensor] = []
    skeleton = flatten(STATE, tensors)
    assert [tensor.shape for tensor in tensors] == [(2, 3), (), (2,)]
    restored = unflatten(unpack(pack(skeleton)), tensors)
    assert restored["model"]["w"] is tensors[0]
    assert restored["optimizer"]["betas"] == (0.9, 0.99)
    assert restored["list"][:3] == [1, None, "x"]
    assert restored["list"][3][1] == 2


def test_names_are_in_the_order_of_the_tensors() -> None:
    tensors: list[torch.Tensor] = []
    flatten(STATE, tensors)
    named = list(named_tensors(STATE))
    assert [name for name, _ in named] == ["model.w", "optimizer.state.0.step", "list.3.0"]
    for (_, tensor), flattened in zip(named, tensors, strict=True):
        assert tensor.data_ptr() == flattened.data_ptr()


def test_a_meta_copy_has_shapes_and_no_memory() -> None:
    copied = meta_copy(STATE)
    weight = copied["model"]["w"]
    assert weight.shape == (2, 3)
    assert weight.device.type == "meta"
    assert copied["optimizer"]["betas"] == (0.9, 0.99)


def changed(**parts: Any) -> dict[str, Any]:
    return copy.deepcopy(STATE) | parts


def test_states_that_were_made_in_the_same_way_have_the_same_digest() -> None:
    assert digest(changed()) == digest(changed())
    transposed = torch.tensor([[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]).T
    assert digest(changed(model={"w": transposed})) == digest(changed())


@pytest.mark.parametrize(
    "part",
    [
        pytest.param({"model": {"w": torch.arange(6.0).view(3, 2)}}, id="another shape"),
        pytest.param({"model": {"w": torch.arange(6).view(2, 3)}}, id="another type"),
        pytest.param({"model": {"v": torch.arange(6.0).view(2, 3)}}, id="another name"),
        pytest.param({"model": {"w": torch.arange(6.0).flip(0).view(2, 3)}}, id="another order"),
        pytest.param({"list": [2, None, "x", (torch.ones(2), 2)]}, id="another number"),
        pytest.param({"empty": torch.empty(0)}, id="a tensor without elements"),
    ],
)
def test_a_state_that_differs_has_another_digest(part: dict[str, Any]) -> None:
    assert digest(changed(**part)) != digest(changed())


def test_code_is_not_unpacked() -> None:
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        unpack(pack(print))


def test_a_tensor_holds_only_its_own_shape_and_type() -> None:
    tensor = torch.zeros(2, 3)
    assert can_hold(tensor, (2, 3), torch.float32)
    assert not can_hold(tensor, (3, 2), torch.float32)
    assert not can_hold(tensor, (2, 3), torch.float64)
    assert not can_hold(tensor.t(), (3, 2), torch.float32)
    assert not can_hold(tensor.to("meta"), (2, 3), torch.float32)
