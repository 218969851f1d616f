"""A model that is wrapped for a group."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Sharded
from elastic_runtime.distributed.group import Group
from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.strategies import fsdp2_internals
from elastic_runtime.strategies.sharded_model import shard_of
from tests.builders.sessions import small_session


@pytest.fixture(autouse=True)
def _no_default_group() -> Iterator[None]:
    yield
    fsdp2_internals.drop_mesh()


def test_a_wrap_that_leaves_parameters_unsharded_is_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, bias=False))
    strategy = Sharded(lambda model, mesh: fully_shard(model[0], mesh=mesh))
    with pytest.raises(
        ValueError,
        match=r"wrap leaves 1.weight and 0 more parameters unsharded: call fully_shard\(model",
    ):
        next(small_session(model=model, strategy=strategy).steps(1))


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            lambda layer: torch.compile(layer, backend="eager"),
            r"0 was replaced by torch.compile, so a checkpoint would",
            id="compiled",
        ),
        pytest.param(
            checkpoint_wrapper,
            r"^wrap changed the names of parameters, such as 0\.",
            id="other names",
        ),
    ],
)
def test_a_wrap_that_replaces_a_module_is_refused(
    change: Callable[[nn.Module], nn.Module], message: str, device: str
) -> None:
    def wrap(model: Any, mesh: DeviceMesh) -> None:
        model[0] = change(model[0])
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)

    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).to(device)
    with pytest.raises(ValueError, match=message):
        next(small_session(model=model, strategy=Sharded(wrap)).steps(1))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_wrap_that_makes_two_parameters_of_a_shared_one_is_refused(device: str) -> None:
    """Such as the embedding of a language model, which is its last layer too."""

    def wrap(model: Any, mesh: DeviceMesh) -> None:
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)

    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)).to(device)
    model[1].weight = model[0].weight
    with pytest.raises(
        ValueError, match=r"^0.weight and 1.weight are one parameter, and wrap makes two of it"
    ):
        next(small_session(model=model, strategy=Sharded(wrap)).steps(1))


def test_a_shared_parameter_stays_so_if_its_modules_are_sharded_in_one_call() -> None:
    def wrap(model: Any, mesh: DeviceMesh) -> None:
        fully_shard([model[0], model[1]], mesh=mesh)
        fully_shard(model, mesh=mesh)

    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    next(small_session(model=model, strategy=Sharded(wrap)).steps(1))
    assert model[1].weight is model[0].weight


def test_shards_follow_from_the_rank_in_its_shard_group() -> None:
    group = Group(1, 0, 6, 3)
    shards = [shard_of(group, rank) for rank in range(6)]
    assert shards == [Shard(0, 3), Shard(1, 3), Shard(2, 3)] * 2
