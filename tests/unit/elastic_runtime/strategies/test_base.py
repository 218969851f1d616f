"""What holds for every strategy: gradients that the script changes are reported."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Deterministic, Session, Sharded
from elastic_runtime.strategies import fsdp2_internals
from elastic_runtime.strategies.base import Strategy
from elastic_runtime.strategies.replicated import Replicated


def wrap(model: torch.nn.Module, mesh: DeviceMesh) -> None:
    fully_shard(model, mesh=mesh)


STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "replicated": Replicated,
    "deterministic": Deterministic,
    "sharded": lambda: Sharded(wrap),
}


@pytest.fixture(autouse=True)
def _no_default_group() -> Iterator[None]:
    yield
    fsdp2_internals.drop_mesh()


Optimizer = torch.optim.Optimizer
# What a script may do to its gradients, and what it is told.
CHANGES: dict[str, tuple[Callable[[Optimizer], object], str]] = {
    "zero_grad": (
        lambda optimizer: optimizer.zero_grad(),
        r"call step.backward without zero_grad\(\), the session clears gradients",
    ),
    "zero_grad(set_to_none=False)": (
        lambda optimizer: optimizer.zero_grad(set_to_none=False),
        r"remove zero_grad\(\)",
    ),
    "clip_grad_norm_": (
        lambda optimizer: torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 0.1),
        r"use step.clip\(norm\) in place of clip_grad_norm_",
    ),
}


def run_step(
    session: Session, model: torch.nn.Module, where: str, change: Callable[[], object]
) -> None:
    dtype = next(model.parameters()).dtype
    steps = session.steps(2)
    step = next(steps)
    for _ in step:
        if where == "before each pass":
            change()
        step.backward(model(torch.ones(1, 2, dtype=dtype)).square().mean())
        if where == "after each pass":
            change()
    if where == "after the last":
        change()
    next(steps)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("where", ["before each pass", "after each pass", "after the last"])
def test_gradients_that_the_script_changes_are_reported(
    strategy: str, change: str, where: str
) -> None:
    act, cure = CHANGES[change]
    if (strategy, change, where) == ("sharded", "clip_grad_norm_", "before each pass"):
        pytest.skip("DTensor does not count these writes, and a norm per pass would cost time")
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    session = Session(model, optimizer, samples=9, micro_batches=2, strategy=STRATEGIES[strategy]())
    with pytest.raises(ValueError, match=cure):
        run_step(session, model, where, lambda: act(optimizer))


@pytest.mark.parametrize("change", CHANGES)
def test_they_are_reported_of_a_model_whose_type_is_too_narrow_for_the_loss(change: str) -> None:
    act, cure = CHANGES[change]
    model = torch.nn.Linear(2, 2).bfloat16()
    optimizer = torch.optim.SGD(model.parameters())
    session = Session(model, optimizer, samples=9, micro_batches=2)
    with pytest.raises(ValueError, match=cure):
        run_step(session, model, "after the last", lambda: act(optimizer))


def test_a_parameter_that_no_loss_reaches_is_not_reported_as_cleared() -> None:
    """Even if the script calls zero_grad before the first pass."""
    model = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
    optimizer = torch.optim.SGD(model.parameters())
    session = Session(model, optimizer, samples=9, micro_batches=2)
    for step in session.steps(1):
        optimizer.zero_grad()
        for _ in step:
            step.backward(model[0](torch.ones(1, 2)).square().mean())
    assert session.step == 1
