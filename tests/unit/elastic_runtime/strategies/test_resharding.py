"""A model that is wrapped again at a resize trains as if it were not.

In one process. With several ranks: tests/processes/test_sharded.py.
"""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from elastic_runtime import Session, Sharded
from elastic_runtime.distributed.recovery import RecoveryPlan
from elastic_runtime.strategies import fsdp2_internals

FULL_PRECISION = MixedPrecisionPolicy()
HALF_PRECISION = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
Call = Callable[..., torch.Tensor]


class WordModel(nn.Module):
    """With an embedding that two modules share."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.mix = nn.Linear(8, 8)
        self.norm = norm
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.norm(torch.tanh(self.mix(self.embed(words)))))
        return scores


@pytest.fixture(autouse=True)
def _no_default_group() -> Iterator[None]:
    yield
    fsdp2_internals.drop_mesh()


def train(
    norm: nn.Module,
    resize_before: tuple[int, ...] = (),
    policy: MixedPrecisionPolicy = FULL_PRECISION,
    compiled: Callable[[nn.Module], Call] = lambda model: model,
) -> tuple[list[float], WordModel]:
    """The losses of 8 steps; before some of them the model is unwrapped and wrapped again."""
    torch.manual_seed(0)
    model = WordModel(norm)

    def wrap(model: WordModel, mesh: DeviceMesh) -> None:
        fully_shard(model.mix, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)

    session = Session(
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-2),
        samples=50,
        micro_batches=2,
        micro_batch_size=4,
        strategy=Sharded(wrap),
    )
    call = compiled(model)
    losses = list[float]()
    for step in session.steps(8):
        if step.number in resize_before:
            session.strategy.enter(None, RecoveryPlan(step.number, (), (0,), ()))
        for batch in step:
            words = torch.tensor(batch.indices) % 11
            step.backward(nn.functional.cross_entropy(call(words).float(), (words + 1) % 11))
        step.clip(1.0)
        losses.append(float(step.loss))
    return losses, model


@pytest.mark.parametrize(
    ("policy", "norm"),
    [
        pytest.param(FULL_PRECISION, nn.BatchNorm1d, id="with buffers that change"),
        pytest.param(HALF_PRECISION, nn.LayerNorm, id="computed in half precision"),
    ],
)
def test_training_continues_with_equal_losses(
    policy: MixedPrecisionPolicy, norm: Callable[[int], nn.Module]
) -> None:
    expected, _ = train(norm(8), policy=policy)
    losses, model = train(norm(8), resize_before=(3, 4), policy=policy)
    assert losses == expected
    assert expected[-1] < expected[0]
    assert model.head.weight is model.embed.weight, "shared parameters are still shared"


# Of torch's compiler, about its own code.
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_is_still_compiled_after_a_resize() -> None:
    expected, _ = train(nn.LayerNorm(8))
    losses, _ = train(
        nn.LayerNorm(8),
        resize_before=(4,),
        compiled=lambda model: torch.compile(model, backend="eager"),
    )
    assert losses == pytest.approx(expected, rel=1e-6)


def wrap_whole(model: nn.Module, mesh: DeviceMesh) -> None:
    fully_shard(model, mesh=mesh)


def test_a_wrapped_model_goes_back_to_the_newest_save(tmp_path: Path) -> None:
    """As when a shard was lost that no other rank has."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    session = Session(
        model,
        optimizer,
        samples=9,
        micro_batches=1,
        strategy=Sharded(wrap_whole),
        checkpoint=tmp_path,
    )
    for step in session.steps(3):
        for _ in step:
            step.backward(model(torch.ones(1, 8)).square().mean())

    def live_tensors() -> list[Any]:
        tensors: list[Any] = [
            tensor for p in model.parameters() for tensor in (p, optimizer.state[p]["exp_avg"])
        ]
        return [tensor.to_local().detach() for tensor in tensors]

    saved = copy.deepcopy(live_tensors())
    for tensor in live_tensors():
        tensor.zero_()
    session.strategy.enter(None, RecoveryPlan(0, (), (), (0,)))
    assert all(torch.equal(now, old) for now, old in zip(live_tensors(), saved, strict=True))
    assert session.step == 3
