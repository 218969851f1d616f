"""Finds a loss that the script has scaled before it passes it to step.backward.

Nothing shows why a script scales its loss, so this is told as a question, not refused.
"""

import math

import torch

GRAD_SCALER = (
    "the loss is multiplied by %g, as by a GradScaler: pass the loss itself to step.backward, and "
    "use torch.autocast with bfloat16, which needs no scaler"
)
ACCUMULATION = (
    "the loss is divided by %d: if that is for gradient accumulation, remove it, the session "
    "divides by the number of micro-batches"
)
# torch's GradScaler begins with 2**16, and grows and shrinks by a factor of 2.
MIN_GRAD_SCALE = 2.0**8
# `reduction="sum"` of torch's losses.
SUM = 2


def scaled_loss_warning(loss: torch.Tensor, micro_batch_size: int) -> str | None:
    """A sum over a micro-batch that is divided by its size is its mean."""
    factor = last_factor(loss)
    if not factor or not math.isfinite(factor) or factor < 0:
        return None
    if factor >= MIN_GRAD_SCALE and math.log2(factor).is_integer():
        return GRAD_SCALER % factor
    divisor = round(1 / factor)
    if divisor > 1 and divisor != micro_batch_size and math.isclose(divisor * factor, 1):
        return ACCUMULATION % divisor
    return None


def last_factor(loss: torch.Tensor) -> float | None:
    """The constant that the loss was last multiplied by; None if its last operation was another.

    Also None for a sum: to divide it makes it a mean.
    """
    last = loss.grad_fn
    if last is None or last.name() not in ("DivBackward0", "MulBackward0"):
        return None
    before = last.next_functions[0][0]
    if before is None or before.name().startswith(("SumBackward", "AddBackward")):
        return None
    other = getattr(last, "_saved_other", None)
    if getattr(before, "_saved_reduction", None) == SUM or other is None or other.numel() != 1:
        return None
    value = float(other)
    if last.name() == "MulBackward0":
        return value
    return 1 / value if value else None
