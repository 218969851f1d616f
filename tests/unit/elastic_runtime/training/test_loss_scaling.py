"""The scale of the loss: how it changes, where it is kept, and who may change it."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from elastic_runtime.training import loss_scaling
from elastic_runtime.training.loss_scaling import CALLS, GOOD_STEPS, LossScaling, next_state
from tests.builders.sessions import loss_of, run_passes, small_model, small_session

GradScaler = torch.amp.GradScaler


# --- the scale ------------------------------------------------------------------------------------


def test_the_scale_changes_as_torchs_own() -> None:
    parameter = torch.nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([parameter])
    scaler = GradScaler("cpu", init_scale=1000.0, growth_factor=3.1, growth_interval=3)
    state = scaler.state_dict()
    for is_finite in [True] * 4 + [False] * 2 + [True] * 7 + [False] + [True] * 2:
        scaler.scale(parameter * (1.0 if is_finite else math.inf)).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        state = next_state(state, is_finite=is_finite)
        assert state == scaler.state_dict()


def test_the_scale_stays_a_number_by_which_gradients_can_be_divided() -> None:
    low = high = GradScaler("cpu", growth_interval=1).state_dict()
    for _ in range(300):
        low = next_state(low, is_finite=False)
        high = next_state(high, is_finite=True)
    assert 0 < low["scale"] < 1e-37
    assert 1e38 < high["scale"] < math.inf
    assert next_state(low, is_finite=True)["scale"] > low["scale"]


@pytest.mark.parametrize("scaler", [None, GradScaler("cpu", enabled=False)])
def test_without_an_enabled_scaler_the_scale_is_1(scaler: GradScaler | None) -> None:
    scaling = LossScaling(scaler)
    scaling.update(is_finite=False)
    scaling.load_state_dict(GradScaler("cpu").state_dict())
    assert (scaling.scale, scaling.state_dict(), scaling.is_enabled) == (1.0, {}, False)


def test_the_unit_of_weights_is_a_power_of_2_and_a_part_of_the_state() -> None:
    scaling = LossScaling(GradScaler("cpu", init_scale=64.0))
    assert scaling.multiplier == 64
    scaling.update(is_finite=True, mean_weight=1000.0)
    assert (scaling.scale, scaling.multiplier) == (64, 64 / 1024)
    after = LossScaling(GradScaler("cpu"))
    after.load_state_dict(scaling.state_dict())
    assert after.multiplier == 64 / 1024
    without_unit = GradScaler("cpu", init_scale=8.0).state_dict()
    after.load_state_dict(without_unit)
    assert after.multiplier == 8


def test_a_scale_that_falls_below_1_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    session = small_session(grad_scaler=GradScaler("cpu", init_scale=2.0))
    for step in session.steps(4):
        for batch in step:
            step.backward(loss_of(session, batch) * math.nan)
    assert caplog.messages.count(loss_scaling.TOO_LOW) == 1


# --- the state ------------------------------------------------------------------------------------


def test_the_scale_and_its_counter_are_loaded_from_a_checkpoint(tmp_path: Path) -> None:
    session = small_session(
        grad_scaler=GradScaler("cpu", init_scale=64.0, growth_interval=5), checkpoint=tmp_path
    )
    for step in session.steps(7):
        run_passes(session, step)
    scaler = GradScaler("cpu")
    after = small_session(grad_scaler=scaler, checkpoint=tmp_path)
    next(after.steps(8))
    assert scaler.get_scale() == 128
    assert scaler.state_dict()[GOOD_STEPS] == 2


@pytest.mark.parametrize("key", ["grad_scaler", None])
def test_a_state_without_a_scale_leaves_that_of_the_script(key: str | None) -> None:
    """Of an older version, or of a session that had no GradScaler."""
    state = small_session()._state.state_dict()
    state.pop(key or "", None)
    scaler = GradScaler("cpu", init_scale=64.0)
    small_session(grad_scaler=scaler)._state.load_state_dict(state)
    assert scaler.get_scale() == 64


def test_a_state_with_a_scale_is_loaded_by_a_session_without_one() -> None:
    state = small_session(grad_scaler=GradScaler("cpu"))._state.state_dict()
    small_session()._state.load_state_dict(state)


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("enabled", [True, False])
def test_a_call_that_is_the_sessions_is_one_line_with_the_cure(name: str, enabled: bool) -> None:
    scaler = GradScaler("cpu", enabled=enabled)
    session = small_session(grad_scaler=scaler)
    step = session.begin(1)
    assert step
    with pytest.raises(ValueError, match=rf"grad_scaler.{name} was called by the script: remove"):
        getattr(scaler, name)(torch.ones(()))
    run_passes(session, step)
    assert session.commit()
    assert session.begin(1) is None


def test_when_the_loop_has_ended_the_scaler_is_an_ordinary_one() -> None:
    scaler = GradScaler("cpu")
    session = small_session(grad_scaler=scaler)
    for step in session.steps(1):
        run_passes(session, step)
    assert scaler.scale(torch.ones(())) == 2.0**16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {"grad_scaler": True},
            r"grad_scaler is a bool: give torch.amp.GradScaler\(device.type\)",
            id="another object",
        ),
        pytest.param(
            {"stateful": [GradScaler("cpu")]},
            r"stateful=\[...\] has a GradScaler, which nobody would update: pass it as grad_scaler",
            id="among other objects",
        ),
        pytest.param(
            {"model": small_model().half(), "grad_scaler": GradScaler("cpu")},
            "the model has parameters in float16, which would lose small updates: keep them in",
            id="parameters in float16",
        ),
        pytest.param(
            {"model": None, "optimizer": small_model(), "grad_scaler": GradScaler("cpu")},
            "the session is given NoneType and Linear",
            id="no model",
        ),
        pytest.param(
            {"scaler": GradScaler("cpu")},
            "Session has no argument scaler: use grad_scaler=torch.amp.GradScaler",
            id="another name",
        ),
    ],
)
def test_a_mistake_with_a_grad_scaler_is_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        small_session(**options)
    assert "\n" not in str(raised.value)
