"""The scale of the loss in float16 training: torch's GradScaler holds it, the session applies it.

Small gradients are 0 in float16, so the loss is multiplied by a scale before the backward pass, and
the summed gradients are divided by it. If they are not finite, the optimizers skip the step and the
scale falls. Every rank decides that from the same sums, so the scale stays equal on all of them.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import torch

from elastic_runtime.mistake import Mistake

# How many steps in a row were good: the key in the state of a GradScaler.
GOOD_STEPS = "_growth_tracker"
# The key beside those of a GradScaler.
WEIGHT_UNIT = "weight_unit"
# The scale does not fall to 0, by which gradients cannot be divided.
MIN_SCALE = torch.finfo(torch.float32).tiny
# What a loop without a session calls.
CALLS = ("scale", "unscale_", "step", "update")
CALLED = (
    "grad_scaler.%s was called by the script: remove the call, the session scales the loss, "
    "unscales the gradients and updates the scale; pass the loss itself to step.backward"
)
TOO_LOW = (
    "the loss scale fell below 1: gradients that are not finite at any scale have another cause; "
    "look for it in the data, the weights, the model and the learning rate, or use bfloat16"
)


class LossScaling:
    """`given`: the script's GradScaler. None, or one that is not enabled: the scale is always 1."""

    def __init__(self, given: torch.amp.GradScaler | None) -> None:
        self._given = given
        is_enabled = isinstance(given, torch.amp.GradScaler) and given.is_enabled()
        self._scaler = given if is_enabled else None
        self._weight_unit = 1.0

    @property
    def is_enabled(self) -> bool:
        return self._scaler is not None

    @property
    def scale(self) -> float:
        return float(self._scaler.get_scale()) if self._scaler else 1.0

    @property
    def multiplier(self) -> float:
        """Of the loss, beside its weight.

        Weights count by their mean in the step before. Otherwise those of thousands of tokens would
        take the place of the scale, and the first steps would be skipped until it has fallen.
        """
        return self.scale / self._weight_unit

    def update(self, *, is_finite: bool, mean_weight: float = 1.0) -> None:
        """`is_finite`: whether the summed gradients of the step are. `mean_weight`: of it."""
        if self._scaler:
            self._scaler.load_state_dict(next_state(self._scaler.state_dict(), is_finite=is_finite))
            # A power of 2 rounds no gradient.
            self._weight_unit = 2.0 ** round(math.log2(mean_weight))

    def state_dict(self) -> dict[str, Any]:
        """The GradScaler's, with the unit of weights; empty if the scale is always 1."""
        return self._scaler.state_dict() | {WEIGHT_UNIT: self._weight_unit} if self._scaler else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """An empty one is of a session without a GradScaler: then the scale stays as it is."""
        if self._scaler and state:
            self._scaler.load_state_dict(dict(state))
            # Older checkpoints do not have it.
            self._weight_unit = state.get(WEIGHT_UNIT, 1.0)

    def mistakes(self, model: torch.nn.Module, stateful: Iterable[Any]) -> Iterator[str]:
        """In what a session is created with."""
        if any(isinstance(item, torch.amp.GradScaler) for item in stateful):
            yield (
                "stateful=[...] has a GradScaler, which nobody would update: pass it as "
                "grad_scaler=..., where its state is saved too"
            )
        if self._given is not None and not isinstance(self._given, torch.amp.GradScaler):
            yield (
                f"grad_scaler is a {type(self._given).__name__}: give "
                "torch.amp.GradScaler(device.type)"
            )
        # What is no module is another mistake.
        parameters = model.parameters() if isinstance(model, torch.nn.Module) else ()
        dtypes = {p.dtype for p in parameters if p.requires_grad}
        if self.is_enabled and torch.float16 in dtypes:
            yield (
                "the model has parameters in float16, which would lose small updates: keep them in "
                "float32, and compute the loss under torch.autocast(..., dtype=torch.float16)"
            )

    @contextmanager
    def no_calls(self) -> Iterator[None]:
        """Inside, a call of the script that scales, unscales or updates raises Mistake."""
        if self._given is None:
            yield
            return
        for name in CALLS:
            setattr(self._given, name, _refusal(name))
        try:
            yield
        finally:
            for name in CALLS:
                vars(self._given).pop(name, None)


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise Mistake(CALLED % name)

    return refuse


def next_state(state: Mapping[str, Any], *, is_finite: bool) -> dict[str, Any]:
    """The state of a GradScaler after a step, as its own `update` changes it."""
    if not is_finite:
        scale = _float32(state["scale"] * state["backoff_factor"])
        return {**state, "scale": max(scale, MIN_SCALE), GOOD_STEPS: 0}
    good_steps = state[GOOD_STEPS] + 1
    if good_steps < state["growth_interval"]:
        return {**state, GOOD_STEPS: good_steps}
    scale = _float32(state["scale"] * state["growth_factor"])
    return {**state, "scale": scale if math.isfinite(scale) else state["scale"], GOOD_STEPS: 0}


def _float32(number: float) -> float:
    return torch.tensor(number, dtype=torch.float32).item()
