"""A model taken out of fully_shard and put back in place is the model it was."""

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

HALF = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


class Words(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.embed, self.mix, self.norm, self.head = (
            nn.Embedding(11, 8),
            nn.Linear(8, 8),
            norm,
            nn.Linear(8, 11, bias=False),
        )
        # shared
        self.head.weight = self.embed.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.norm(torch.tanh(self.mix(self.embed(words)))))
        return found


@pytest.fixture(autouse=True)
def _no_default_group() -> Iterator[None]:
    yield
    fsdp2_internals.drop_mesh()


def train(
    policy: MixedPrecisionPolicy,
    norm: nn.Module,
    rewrap_at: tuple[int, ...],
    compiled: Callable[[nn.Module], Callable[..., torch.Tensor]],
) -> tuple[list[float], Words]:
    """The losses of 8 steps; before some of them the model goes out of its wrapping and back, as at
    a resize."""
    torch.manual_seed(0)
    model = Words(norm)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def wrap(model: Words, mesh: DeviceMesh) -> None:
        fully_shard(model.mix, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)

    session = Session(
        model, optimizer, samples=50, micro_batches=2, micro_batch_size=4, strategy=Sharded(wrap)
    )
    call = compiled(model)
    losses = list[float]()
    for step in session.steps(8):
        if step.number in rewrap_at:
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
        pytest.param(MixedPrecisionPolicy(), nn.BatchNorm1d, id="with buffers that move"),
        pytest.param(HALF, nn.LayerNorm, id="computed in half precision"),
    ],
)
def test_training_goes_on_as_if_nothing_had_happened(
    policy: MixedPrecisionPolicy, norm: Callable[[int], nn.Module]
) -> None:
    expected, _ = train(policy, norm(8), (), lambda model: model)
    losses, model = train(policy, norm(8), (3, 4), lambda model: model)
    assert losses == expected
    assert expected[-1] < expected[0]
    assert model.head.weight is model.embed.weight


def test_a_wrapping_that_leaves_parameters_out_is_refused() -> None:
    model = Words(nn.LayerNorm(8))
    session = Session(
        model,
        torch.optim.SGD(model.parameters()),
        samples=5,
        micro_batches=1,
        strategy=Sharded(lambda model, mesh: fully_shard(model.mix, mesh=mesh)),
    )
    with pytest.raises(ValueError, match="unsharded"):
        next(session.steps(1))


def test_going_in_and_out_of_the_wrapping_leaves_nothing_behind() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    session = Session(
        model,
        torch.optim.AdamW(model.parameters()),
        samples=9,
        micro_batches=1,
        strategy=Sharded(whole),
    )

    def hooks() -> int:
        kinds = (
            "load_state_dict_post",
            "load_state_dict_pre",
            "state_dict_pre",
            "forward",
            "forward_pre",
        )
        return sum(
            len(getattr(module, f"_{kind}_hooks")) for module in model.modules() for kind in kinds
        )

    first = 0
    for step in session.steps(4):
        session.strategy.enter(None, RecoveryPlan(step.number, (), (0,), ()))
        first = first or hooks()
        assert hooks() == first
        for _ in step:
            step.backward(model(torch.ones(1, 8)).square().mean())


def whole(model: nn.Module, mesh: DeviceMesh) -> None:
    fully_shard(model, mesh=mesh)


def test_a_wrapped_model_goes_back_to_the_newest_save(tmp_path: Path) -> None:
    """As when a part was lost that nobody else has: in the same processes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    session = Session(
        model, optimizer, samples=9, micro_batches=1, strategy=Sharded(whole), checkpoint=tmp_path
    )
    for step in session.steps(3):
        for _ in step:
            step.backward(model(torch.ones(1, 8)).square().mean())

    def all_of_it() -> list[Any]:
        tensors: list[Any] = [
            t for p in model.parameters() for t in (p, optimizer.state[p]["exp_avg"])
        ]
        return [t.to_local().detach() for t in tensors]

    saved = copy.deepcopy(all_of_it())
    for tensor in all_of_it():
        tensor.zero_()
    session.strategy.enter(None, RecoveryPlan(0, (), (), (0,)))
    assert all(torch.equal(now, was) for now, was in zip(all_of_it(), saved, strict=True))
    assert session.step == 3


def test_a_torch_without_the_names_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("torch.distributed._composable_state._module_state_mapping")
    model = Words(nn.LayerNorm(8))
    with pytest.raises(RuntimeError, match="needs torch"):
        Session(
            model,
            torch.optim.SGD(model.parameters()),
            samples=5,
            micro_batches=1,
            strategy=Sharded(lambda model, mesh: None),
        )


# of torch's compiler about its own ways
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_goes_on_compiled_after_a_resize() -> None:
    expected, _ = train(MixedPrecisionPolicy(), nn.LayerNorm(8), (), lambda model: model)
    losses, _ = train(
        MixedPrecisionPolicy(),
        nn.LayerNorm(8),
        (4,),
        lambda model: torch.compile(model, backend="eager"),
    )
    assert losses == pytest.approx(expected, rel=1e-6)
