"""Precisions on a GPU: a session takes the steps that a loop without one takes."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Deterministic, Session, Sharded, device
from elastic_runtime.strategies import fsdp2_internals
from tests.gpu.sharding import skip_if_refused

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]
DEVICE = device()
# The CPU, where these tests can be tried, has no compiler of its own.
BACKEND = "inductor" if DEVICE.type == "cuda" else "eager"
MICRO_BATCHES = 4
MAX_NORM = 0.5
# A step whose gradients are made infinite.
LOST = 10


def wrap(model: Any, mesh: DeviceMesh) -> None:
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)


STRATEGIES: dict[str, Any] = {
    "replicated": lambda: None,
    "deterministic": Deterministic,
    "sharded": lambda: Sharded(wrap),
}


def make_model(dtype: torch.dtype = torch.float32) -> torch.nn.Sequential:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)]
    return torch.nn.Sequential(*layers).to(DEVICE, dtype)


def loss_of(
    model: Any, number: int, dtype: torch.dtype | None, *, is_lost: bool = False
) -> torch.Tensor:
    """Of a micro-batch, under autocast unless `dtype` is None."""
    draws = torch.Generator().manual_seed(number)
    # (samples, width)
    inputs = torch.randn(16, 64, generator=draws).to(DEVICE)
    targets = torch.randn(16, 8, generator=draws).to(DEVICE)
    with torch.autocast(DEVICE.type, dtype=dtype or torch.bfloat16, enabled=dtype is not None):
        outputs = model(inputs)
    if is_lost:
        outputs.register_hook(lambda gradient: gradient * math.inf)
    loss: torch.Tensor = (outputs.float() - targets).square().mean()
    return loss


def optimizer_of(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


# --- float16 --------------------------------------------------------------------------------------
def make_scaler() -> torch.amp.GradScaler:
    """Its first steps overflow, and others after it has grown."""
    return torch.amp.GradScaler(DEVICE.type, init_scale=2.0**24, growth_interval=3)


def torchs_scaled_loop(model: torch.nn.Module, steps: int) -> list[float]:
    """The scale before each step."""
    optimizer = optimizer_of(model)
    scaler = make_scaler()
    scales = []
    for step in range(steps):
        scales.append(scaler.get_scale())
        optimizer.zero_grad()
        for number in range(MICRO_BATCHES):
            loss = loss_of(model, number, torch.float16, is_lost=step == LOST)
            scaler.scale(loss / MICRO_BATCHES).backward()  # type: ignore[no-untyped-call]
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        scaler.step(optimizer)
        scaler.update()
    return scales


def local(parameter: Any) -> torch.Tensor:
    """Of a sharded one this rank's rows, which are all of them."""
    rows: torch.Tensor = getattr(parameter, "to_local", lambda: parameter)().detach()
    return rows


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_steps_in_float16_are_skipped_and_taken_as_in_torchs_own_loop(strategy: str) -> None:
    if strategy == "sharded":
        skip_if_refused()
    own = make_model()
    scales = torchs_scaled_loop(own, 20)
    assert scales[LOST + 1] == scales[LOST] / 2, "torch's loop has skipped this step"
    assert {later / earlier for earlier, later in pairwise(scales)} == {0.5, 1.0, 2.0}
    model = make_model()
    scaler = make_scaler()
    session = Session(
        model,
        optimizer_of(model),
        samples=16,
        micro_batches=MICRO_BATCHES,
        strategy=STRATEGIES[strategy](),
        grad_scaler=scaler,
        clip=MAX_NORM,
    )
    before = list[torch.Tensor]()
    for step in session.steps(20):
        assert scaler.get_scale() == scales[step.number]
        values = [local(parameter).clone() for parameter in model.parameters()]
        if step.number == LOST + 1:
            assert all(map(torch.equal, values, before)), "a skipped step changes nothing"
        before = values
        for batch in step:
            is_lost = step.number == LOST
            step.backward(loss_of(model, batch.number, torch.float16, is_lost=is_lost))
    for parameter, expected in zip(model.parameters(), own.parameters(), strict=True):
        # AdamW makes a whole step, 1e-3, of the rounding of a gradient near zero.
        torch.testing.assert_close(local(parameter), expected.detach(), rtol=1e-3, atol=2e-4)
    fsdp2_internals.drop_mesh()


# --- bfloat16, and compiled -----------------------------------------------------------------------
def loop_without_session(
    model: torch.nn.Module, steps: int, dtype: torch.dtype | None
) -> list[float]:
    optimizer = optimizer_of(model)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        parts = [loss_of(model, number, dtype) for number in range(MICRO_BATCHES)]
        for part in parts:
            (part / MICRO_BATCHES).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        losses.append(sum(part.item() for part in parts) / MICRO_BATCHES)
    return losses


def train(
    directory: Path, model: torch.nn.Module, computed: Any, until: int, dtype: torch.dtype | None
) -> dict[int, float]:
    """The losses by step. It continues what is saved in `directory`."""
    session = Session(
        model,
        optimizer_of(model),
        samples=16,
        micro_batches=MICRO_BATCHES,
        checkpoint=directory,
        clip=MAX_NORM,
    )
    losses = {}
    while step := session.begin(until):
        for batch in step:
            step.backward(loss_of(computed, batch.number, dtype))
        assert session.commit()
        assert session.loss is not None
        losses[step.number] = session.loss
    return losses


@pytest.mark.parametrize("parameters", [torch.float32, torch.bfloat16], ids=str)
def test_steps_in_bfloat16_are_those_of_a_loop_without_a_session(
    tmp_path: Path, parameters: torch.dtype
) -> None:
    """Also of a model that continues from a checkpoint, in the type of its parameters."""
    own = make_model(parameters)
    expected = loop_without_session(own, 10, torch.bfloat16)
    first = make_model(parameters)
    losses = train(tmp_path, first, first, 6, torch.bfloat16)
    second = make_model(parameters)
    resumed = train(tmp_path, second, second, 10, torch.bfloat16)
    assert sorted(resumed) == [6, 7, 8, 9]
    losses |= resumed
    # A sum in another order may round to the next bfloat16.
    assert [losses[step] for step in range(10)] == pytest.approx(expected, rel=1e-3)
    for parameter, other in zip(second.parameters(), own.parameters(), strict=True):
        assert parameter.dtype == parameters
        torch.testing.assert_close(parameter, other, rtol=1e-2, atol=1e-3)


def test_a_compiled_model_trains_is_saved_and_resumes(tmp_path: Path) -> None:
    """Its checkpoint is that of the model that was compiled."""
    expected = loop_without_session(make_model(), 8, None)
    model = make_model()
    losses = train(tmp_path, model, torch.compile(model, backend=BACKEND), 4, None)
    model = make_model()
    resumed = train(tmp_path, model, torch.compile(model, backend=BACKEND), 6, None)
    assert sorted(resumed) == [4, 5]
    model = make_model()
    not_compiled = train(tmp_path, model, model, 8, None)
    losses |= resumed | not_compiled
    assert [losses[step] for step in range(8)] == pytest.approx(expected, rel=1e-4)
