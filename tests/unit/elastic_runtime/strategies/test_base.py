"""What holds for every strategy: gradients that the script clears are reported."""

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


def run_step_with_zero_grad(strategy: Strategy, where: str) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    session = Session(model, optimizer, samples=9, micro_batches=2, strategy=strategy)
    steps = session.steps(2)
    step = next(steps)
    for _ in step:
        if where == "before each pass":
            optimizer.zero_grad()
        step.backward(model(torch.ones(1, 2)).square().mean())
        if where == "after each pass":
            optimizer.zero_grad()
    if where == "after the last":
        optimizer.zero_grad()
    next(steps)


CLEARED = r"call step.backward without zero_grad\(\), the session clears gradients"
# Deterministic has taken the gradients when a pass ends.
HARMLESS = {("deterministic", "before each pass"), ("deterministic", "after the last")}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("where", ["before each pass", "after each pass", "after the last"])
def test_gradients_that_the_script_clears_are_reported(strategy: str, where: str) -> None:
    if (strategy, where) in HARMLESS:
        run_step_with_zero_grad(STRATEGIES[strategy](), where)
    else:
        with pytest.raises(ValueError, match=CLEARED):
            run_step_with_zero_grad(STRATEGIES[strategy](), where)


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
