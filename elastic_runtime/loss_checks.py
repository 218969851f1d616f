"""Finds a loss that the script has scaled before it passes it to step.backward.

Nothing shows why a script scales its loss, so this is told as a question, not refused.
"""

import math

import torch

GRAD_SCALER = (
    "the loss is multiplied by %g, which may be the scale of a GradScaler: if so, pass the loss "
    "itself to step.backward, and the scaler to the session, grad_scaler=scaler"
)
ACCUMULATION = (
    "the loss is divided by %d, which may be for gradient accumulation: if so, remove it, the "
    "session divides by the number of micro-batches"
)
WEIGHTED_TWICE = (
    "the loss is multiplied by %g, which is also its weight: pass the mean over the micro-batch, "
    "step.backward multiplies it by its weight"
)
WEIGHTED_SUM = (
    "the loss is a sum, and has a weight: pass the mean over what the weight counts, "
    "step.backward multiplies it by its weight"
)
# torch's GradScaler begins with 2**16, and grows and shrinks by a factor of 2. Smaller ones are
# also weights, such as the square of a temperature in distillation.
MIN_GRAD_SCALE = 2.0**13
MULTIPLY = "MulBackward0"
DIVIDE = "DivBackward0"
# `reduction="sum"` of torch's losses.
SUM = 2


def scaled_loss_warning(
    loss: torch.Tensor, micro_batches: int, micro_batch_size: int, weight: float | None = None
) -> str | None:
    """`micro_batches`: workers times steps of accumulation, in a script that was ported."""
    operation, number = last_constant(loss)
    if weight is not None and weight > 1:
        if getattr(loss.grad_fn, "_saved_reduction", None) == SUM:
            return WEIGHTED_SUM
        if number == weight:
            return WEIGHTED_TWICE % number if operation == MULTIPLY else None
    if not number.is_integer():
        return None
    if operation == MULTIPLY:
        is_scale = number >= MIN_GRAD_SCALE and math.log2(number).is_integer()
        return GRAD_SCALER % number if is_scale else None
    # Half of a squared error is a loss of its own. A sum that is divided by its size is a mean.
    is_accumulation = number > 2 and number != micro_batch_size and not micro_batches % number
    return ACCUMULATION % number if is_accumulation else None


def last_constant(loss: torch.Tensor) -> tuple[str, float]:
    """Whether the loss was last multiplied or divided by a constant, and by which.

    ("", nan) if its last operation was another, and for a sum: to divide it makes it a mean.
    """
    nothing = ("", math.nan)
    last = loss.grad_fn
    if last is None or last.name() not in (MULTIPLY, DIVIDE):
        return nothing
    before = last.next_functions[0][0]
    if before is None or before.name().startswith(("SumBackward", "AddBackward")):
        return nothing
    other = getattr(last, "_saved_other", None)
    if getattr(before, "_saved_reduction", None) == SUM or other is None or other.numel() != 1:
        return nothing
    return last.name(), float(other)
