"""A rank that trains alone on a GPU takes the steps that it would take with buckets."""

import weakref
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch

from elastic_runtime import Session, script_checks
from elastic_runtime.distributed.group import Group
from elastic_runtime.strategies import replicated
from elastic_runtime.strategies.gradient_buckets import GradientBuckets
from elastic_runtime.strategies.lone_gradients import LoneGradients

CPU, GPU = torch.device("cpu"), torch.device("cuda")
# (samples, width)
INPUTS = torch.linspace(-1, 1, 64).view(16, 4)


class Model(torch.nn.Module):
    """With a parameter that no pass reaches, and one that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 4)
        self.unused = torch.nn.Parameter(torch.ones(2))

    def forward(self, indices: list[int]) -> torch.Tensor:
        outputs: torch.Tensor = self.layer(self.layer(INPUTS[indices]))
        return outputs


def train(
    monkeypatch: pytest.MonkeyPatch, *, alone: bool, scale: float | None = None
) -> tuple[list[Any], list[torch.Tensor]]:
    """What a session says after each step, and the parameters at the end."""
    monkeypatch.setattr(replicated, "needs_no_buckets", lambda group, device: alone)
    model = Model()
    session = Session(
        model,
        torch.optim.AdamW(model.parameters(), lr=0.01),
        samples=16,
        micro_batches=3,
        micro_batch_size=2,
        grad_scaler=torch.amp.GradScaler("cpu", init_scale=scale) if scale else None,
        clip=0.5,
    )
    said = []
    for step in session.steps(6):
        for batch in step:
            loss = model(batch.indices).square().mean()
            if scale and step.number == 2:
                loss = loss * torch.inf
            step.backward(loss, weight=None if scale else 1.0 + batch.number)
        said.append((session.loss, session.gradient_norm, step.loss.item()))
    return said[1:], [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize("scale", [None, 2.0**10], ids=["weights", "loss scaling"])
def test_steps_are_those_of_buckets_bit_by_bit(
    monkeypatch: pytest.MonkeyPatch, scale: float | None
) -> None:
    """With clipping, weights or a step that is skipped, and a parameter without gradient."""
    said, parameters = train(monkeypatch, alone=True, scale=scale)
    expected, others = train(monkeypatch, alone=False, scale=scale)
    assert repr(said) == repr(expected)
    assert all(map(torch.equal, parameters, others))
    # AdamW has decayed it: its gradient was 0, and not missing.
    assert parameters[0].max() < 1


def test_only_a_rank_that_is_alone_on_a_gpu_needs_no_buckets() -> None:
    assert replicated.needs_no_buckets(None, GPU)
    assert replicated.needs_no_buckets(Group(1, 0, 1), GPU)
    assert not replicated.needs_no_buckets(Group(1, 0, 2), GPU)
    assert not replicated.needs_no_buckets(None, CPU)


def test_a_step_in_an_aborted_group_fails() -> None:
    group = Group(1, 0, 1)
    lone = LoneGradients(list(torch.nn.Linear(2, 2).parameters()))
    lone.begin_step(group)
    assert lone.reduce(torch.ones(1))
    group.abort()
    assert not lone.reduce(torch.ones(1))
    assert lone.broken


def clear(model: torch.nn.Module) -> None:
    model.zero_grad()


def change(model: torch.nn.Module) -> None:
    model.zero_grad(set_to_none=False)


@pytest.mark.parametrize(
    ("script", "message"),
    [(clear, script_checks.GRADIENTS_CLEARED), (change, script_checks.GRADIENTS_CHANGED)],
)
def test_gradients_that_the_script_takes_away_are_a_mistake(
    script: Callable[[torch.nn.Module], None], message: str
) -> None:
    model = torch.nn.Linear(2, 2)
    lone = LoneGradients(list(model.parameters()))
    lone.begin_step(None)
    model(torch.ones(2)).sum().backward()
    script(model)
    lone.check(is_first=True)
    model(torch.ones(2)).sum().backward()
    lone.end_backward()
    lone.check(is_first=False)
    script(model)
    with pytest.raises(ValueError, match=message[:20]):
        lone.check(is_first=False)


class Peer:
    """A group of two ranks whose gradients are equal."""

    def all_reduce(self, tensor: torch.Tensor) -> Any:
        tensor.mul_(2)
        return self

    def wait(self) -> None:
        """It is completed."""


def test_buckets_hold_no_memory_while_a_rank_is_alone() -> None:
    """When another rank joins they sum gradients again."""
    model = torch.nn.Linear(2, 2)
    buckets = GradientBuckets(model)
    lone = LoneGradients(buckets.parameters)
    buckets.begin_step(None)
    memory = [weakref.ref(memory) for memory in buckets._memory]
    buckets.release()
    lone.begin_step(None)
    assert [reference() for reference in memory] == [None]
    model(torch.ones(2)).sum().backward()
    assert lone.reduce(torch.ones(1))
    buckets.begin_step(cast(Group, Peer()))
    buckets.in_last_pass = True
    model(torch.ones(2)).sum().backward()
    assert buckets.reduce(torch.tensor([3.0]))
    assert buckets.summed() == 6.0
    buckets.write_gradients()
    assert model.bias.grad is not None
    assert model.bias.grad.tolist() == [2.0, 2.0]
