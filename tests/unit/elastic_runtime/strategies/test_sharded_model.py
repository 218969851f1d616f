"""A model that is wrapped for a group."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Session, Sharded
from elastic_runtime.distributed.group import Group
from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.strategies import fsdp2_internals
from elastic_runtime.strategies.sharded_model import shard_of


@pytest.fixture(autouse=True)
def _no_default_group() -> Iterator[None]:
    yield
    fsdp2_internals.drop_mesh()


def test_a_wrap_that_leaves_parameters_unsharded_is_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, bias=False))
    session = Session(
        model,
        torch.optim.SGD(model.parameters()),
        samples=5,
        micro_batches=1,
        strategy=Sharded(lambda model, mesh: fully_shard(model[0], mesh=mesh)),
    )
    with pytest.raises(
        ValueError,
        match=r"wrap leaves 1.weight and 0 more parameters unsharded: call fully_shard\(model",
    ):
        next(session.steps(1))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_wrap_that_replaces_a_module_by_a_compiled_one_is_refused(device: str) -> None:
    def wrap(model: Any, mesh: DeviceMesh) -> None:
        model[0] = torch.compile(model[0], backend="eager")
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)

    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).to(device)
    session = Session(
        model,
        torch.optim.SGD(model.parameters()),
        samples=5,
        micro_batches=1,
        strategy=Sharded(wrap),
    )
    with pytest.raises(ValueError, match=r"0 was replaced by torch.compile, so a checkpoint would"):
        next(session.steps(1))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_wrap_that_changes_the_names_of_parameters_is_refused(device: str) -> None:
    def wrap(model: Any, mesh: DeviceMesh) -> None:
        model[0] = checkpoint_wrapper(model[0])
        fully_shard(model, mesh=mesh)

    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).to(device)
    session = Session(
        model,
        torch.optim.SGD(model.parameters()),
        samples=5,
        micro_batches=1,
        strategy=Sharded(wrap),
    )
    with pytest.raises(ValueError, match=r"^wrap changed the names of parameters, such as 0\."):
        next(session.steps(1))


def test_shards_follow_from_the_rank_in_its_shard_group() -> None:
    group = Group(1, 0, 6, 3)
    shards = [shard_of(group, rank) for rank in range(6)]
    assert shards == [Shard(0, 3), Shard(1, 3), Shard(2, 3)] * 2
