"""What a rank loads of a checkpoint. With several ranks: tests/processes/test_sharded.py."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from elastic_runtime.distributed.group import Group
from elastic_runtime.state.optimizers import Optimizers
from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.strategies import fsdp2_internals, sharded_state
from elastic_runtime.strategies.own_rows import OwnRows

GROUP = Group(0, 0, 1, 1)


@pytest.fixture
def sharded() -> Iterator[tuple[nn.Module, Optimizers]]:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    fully_shard(model, mesh=fsdp2_internals.make_mesh(GROUP.connect_alone(), "cpu"))
    yield model, Optimizers({"0": torch.optim.AdamW(model.parameters())})
    fsdp2_internals.drop_mesh()


def test_only_what_is_sharded_is_loaded_by_rows(sharded: tuple[nn.Module, Optimizers]) -> None:
    own = OwnRows(*sharded, Shard(1, 3))
    assert own.rows("model.0.weight", (4, 3)) == (2, 4)
    assert own.rows("optimizer.state.0.exp_avg", (4, 3)) == (2, 4)
    assert own.rows("optimizer.state.0.step", ()) == (0, 1)
    assert own.rows("model.1.running_mean", (4,)) == (0, 4)
    assert own.rows("also.0.seen", (9,)) == (0, 9)
    # Of another model: torch says what is wrong.
    assert own.rows("model.0.weight", (5, 3)) == (0, 5)


def test_rows_become_those_of_the_live_tensor(sharded: tuple[nn.Module, Optimizers]) -> None:
    model: Any = sharded[0]
    own = OwnRows(*sharded, Shard(0, 1))
    own.rows("model.0.weight", (4, 3))
    live = own.live("model.0.weight")
    assert live is not None
    assert live.data_ptr() == model[0].weight.to_local().data_ptr(), "its memory is filled"
    saved = torch.arange(12.0, dtype=torch.float64).view(4, 3)
    placed = own.place("model.0.weight", saved)
    assert isinstance(placed, DTensor)
    assert torch.equal(model[0].weight.to_local(), saved.float())


def test_state_of_an_optimizer_is_sharded_as_its_parameter(
    sharded: tuple[nn.Module, Optimizers],
) -> None:
    own = OwnRows(*sharded, Shard(0, 1))
    own.rows("optimizer.state.0.exp_avg", (4, 3))
    placed = own.place("optimizer.state.0.exp_avg", torch.ones(4, 3))
    assert isinstance(placed, DTensor)
    assert placed.placements == dict(sharded[0].named_parameters())["0.weight"].placements  # type: ignore[attr-defined]


def test_what_an_optimizer_has_loaded_whole_is_sharded_afterwards(
    sharded: tuple[nn.Module, Optimizers],
) -> None:
    """One whose state_dict has other names than torch's."""
    model, optimizers = sharded
    weight = next(model.parameters())
    state = next(iter(optimizers)).state[weight]
    state.update(momentum=torch.ones(4, 3), step=torch.tensor(2.0))
    sharded_state.shard_loaded(optimizers, Shard(0, 1))
    assert isinstance(state["momentum"], DTensor)
    assert not isinstance(state["step"], DTensor)
