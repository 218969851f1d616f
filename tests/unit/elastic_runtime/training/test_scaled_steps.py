"""Steps whose loss is scaled for float16, with every strategy: as in torch's own loop."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from elastic_runtime import Deterministic, Session, Sharded
from elastic_runtime.strategies import fsdp2_internals
from elastic_runtime.strategies.base import Strategy
from elastic_runtime.training.loss_scaling import GOOD_STEPS
from tests.builders.sessions import small_session

GradScaler = torch.amp.GradScaler


def wrap(model: torch.nn.Module, mesh: DeviceMesh) -> None:
    fully_shard(model.get_submodule("0"), mesh=mesh)
    fully_shard(model, mesh=mesh)


def wrap_in_half(model: torch.nn.Module, mesh: DeviceMesh) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.float16, output_dtype=torch.float32)
    fully_shard(model, mesh=mesh, mp_policy=policy)


STRATEGIES: dict[str, Callable[[], Strategy | None]] = {
    "replicated": lambda: None,
    "deterministic": Deterministic,
    "sharded": lambda: Sharded(wrap),
}
# (samples, width)
INPUTS = torch.linspace(-1, 1, 64).view(16, 4)


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))


def make_scaler() -> GradScaler:
    """Its first steps overflow in float16, and others after it has grown."""
    return GradScaler("cpu", init_scale=2.0**20, growth_interval=3)


def values(model: torch.nn.Module) -> list[torch.Tensor]:
    """This rank's rows of the parameters."""
    parameters: Any = model.parameters()
    return [getattr(p, "to_local", lambda p=p: p)().detach() for p in parameters]


def half_loss(model: torch.nn.Module, number: int) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.float16):
        outputs = model(INPUTS[4 * number : 4 * number + 4])
    loss: torch.Tensor = (outputs.float() - number).square().mean()
    return loss


def torchs_own_loop(
    model: torch.nn.Module, steps: int, max_norm: float
) -> tuple[list[float], list[float]]:
    """The scale before each step, and the learning rate."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
    scaler = make_scaler()
    scales = []
    rates = []
    for _ in range(steps):
        scales.append(scaler.get_scale())
        rates.append(float(scheduler.get_last_lr()[0]))
        optimizer.zero_grad()
        for number in range(4):
            scaler.scale(half_loss(model, number) / 4).backward()  # type: ignore[no-untyped-call]
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= scales[-1]:
            scheduler.step()
    return scales, rates


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_steps_are_skipped_and_taken_as_in_torchs_own_loop(strategy: str) -> None:
    """The scale, the parameters, and lr_schedulers, which skip a step with the optimizers."""
    own = make_model()
    scales, rates = torchs_own_loop(own, 16, 0.5)
    assert {later / earlier for earlier, later in pairwise(scales)} == {0.5, 1.0, 2.0}
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
    scaler = make_scaler()
    session = Session(
        model,
        optimizer,
        samples=16,
        micro_batches=4,
        lr_schedulers=[scheduler],
        strategy=STRATEGIES[strategy](),
        grad_scaler=scaler,
    )
    for step in session.steps(16):
        assert scaler.get_scale() == scales[step.number]
        assert scheduler.get_last_lr()[0] == pytest.approx(rates[step.number])
        losses = []
        for batch in step:
            loss = half_loss(model, batch.number)
            losses.append(loss.item())
            step.backward(loss)
        step.clip(0.5)
        assert step.loss.item() == pytest.approx(sum(losses) / 4), "not scaled"
    fsdp2_internals.drop_mesh()
    for now, expected in zip(values(model), own.parameters(), strict=True):
        torch.testing.assert_close(now, expected.detach())


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("weights", [None, (3.0, 0.0)])
def test_without_an_overflow_a_scale_changes_no_bit(
    strategy: str, weights: tuple[float, ...] | None
) -> None:
    """It is a power of 2. A micro-batch of weight 0 may have gradients of any kind."""
    states = []
    for scaler in (None, GradScaler("cpu")):
        model = make_model()
        session = small_session(
            model=model, strategy=STRATEGIES[strategy](), grad_scaler=scaler, micro_batches=2
        )
        for step in session.steps(3):
            for batch in step:
                weight = weights[batch.number] if weights else None
                loss = model(INPUTS).square().mean()
                step.backward(loss * math.nan if weight == 0 else loss, weight=weight)
            step.clip(0.01)
        state = [value.tolist() for value in values(model)]
        states.append((session.loss, session.gradient_norm, state))
        fsdp2_internals.drop_mesh()
    assert states[0] == states[1]
    assert scaler
    assert (scaler.get_scale(), scaler.state_dict()[GOOD_STEPS]) == (2.0**16, 3)


@pytest.mark.parametrize(("weight", "skipped"), [(None, 0), (2.0**13, 1), (2.0**-13, 0)])
def test_the_size_of_weights_costs_one_step_at_most(weight: float | None, skipped: int) -> None:
    """A weight may be the number of tokens, by which no scale has to fall."""
    model = make_model()
    scaler = GradScaler("cpu", init_scale=2.0**15)
    session = small_session(model=model, samples=16, micro_batches=4, grad_scaler=scaler)
    for step in session.steps(6):
        for batch in step:
            step.backward(half_loss(model, batch.number), weight=weight)
    assert scaler.get_scale() == 2.0 ** (15 - skipped)
    assert scaler.state_dict()[GOOD_STEPS] == 6 - skipped


def test_gradients_that_fsdp2_reduces_in_float16_overflow_and_recover() -> None:
    model = make_model()
    scaler = make_scaler()
    session = small_session(
        model=model, samples=16, micro_batches=4, strategy=Sharded(wrap_in_half), grad_scaler=scaler
    )
    losses = []
    for step in session.steps(12):
        for batch in step:
            outputs = model(INPUTS[4 * batch.number : 4 * batch.number + 4])
            step.backward((outputs - batch.number).square().mean())
        losses.append(float(step.loss))
    fsdp2_internals.drop_mesh()
    assert losses[0] == losses[1], "the first steps are skipped"
    assert 1 < scaler.get_scale() < 2.0**20
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_skipped_step_is_committed_and_changes_no_parameter(strategy: str) -> None:
    """Of none of several optimizers, with begin and commit."""
    model = make_model()
    first = torch.optim.SGD(model.get_submodule("0").parameters(), lr=0.1)
    second = torch.optim.AdamW(model.get_submodule("2").parameters())
    scaler = GradScaler("cpu")
    session = Session(
        model,
        [first, second],
        samples=9,
        micro_batches=2,
        strategy=STRATEGIES[strategy](),
        grad_scaler=scaler,
    )
    before = list[torch.Tensor]()
    while step := session.begin(2):
        for batch in step:
            outputs = model(INPUTS)
            if step.number == 1 and batch.number == 1:
                before = [value.clone() for value in values(model)]
                outputs.register_hook(lambda gradient: gradient * math.inf)
            step.backward(outputs.square().mean())
        step.clip(0.5)
        assert session.commit()
    fsdp2_internals.drop_mesh()
    assert session.step == 2
    assert session.gradient_norm is not None
    assert not math.isfinite(session.gradient_norm)
    assert scaler.get_scale() == 2.0**15
    assert all(map(torch.equal, before, values(model)))
