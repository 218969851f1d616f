"""The loss of a step from the losses and weights of its micro-batches, alike on every rank.

Each rank fills in its own micro-batches and leaves the others 0, so a sum over the ranks has all of
them, exactly. What follows from them is then computed in one order at every size of the job.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch

from elastic_runtime import script_checks

# In place of a weight, for a micro-batch that was given none.
NOT_GIVEN = -1.0
SOME_HAVE_NONE = (
    "in step %d, micro-batch %d has a weight and micro-batch %d has none: pass weight=... to "
    "step.backward for every micro-batch on every worker, or for none"
)
ALL_ARE_ZERO = (
    "the weights of all micro-batches of step %d are 0, so it has no loss: give at least one of "
    "them a weight above 0, or use more or larger micro-batches"
)


class StepLosses:
    """Of this rank's micro-batches, so far."""

    def __init__(self, micro_batches: int, device: torch.device) -> None:
        self._losses = torch.zeros(micro_batches, device=device)
        self._weights = [0.0] * micro_batches

    def add(self, micro_batch: int, loss: torch.Tensor, weight: float | None) -> None:
        """`loss`: a single number."""
        self._losses[micro_batch] = loss.detach().to(self._losses).reshape(())
        self._weights[micro_batch] = NOT_GIVEN if weight is None else weight

    def part(self) -> torch.Tensor:
        """(1,): the sum of weight * loss; without weights, this rank's part of the mean."""
        mean = 1 / len(self._weights)
        weights = [mean if weight == NOT_GIVEN else weight for weight in self._weights]
        counting = [number for number, weight in enumerate(weights) if weight]
        factors = torch.tensor([weights[number] for number in counting])
        return (self._losses[counting] * factors.to(self._losses)).sum().view(1)

    def to_sum(self) -> torch.Tensor:
        """(2 * micro-batches,): all losses, then all weights; 0 for those of other ranks."""
        weights = torch.tensor(self._weights)
        # a blocking copy would wait for all that the GPU still computes
        return torch.cat([self._losses, weights.to(self._losses, non_blocking=True)])


def length(micro_batches: int) -> int:
    """Of `StepLosses.to_sum`."""
    return 2 * micro_batches


@dataclass(frozen=True, slots=True)
class StepLoss:
    """Of a whole step. `gradient_factor`: by which the summed gradients are to be multiplied."""

    loss: float
    gradient_factor: float


def scale(weight: float | None, micro_batches: int) -> float:
    """By which a micro-batch's loss is multiplied before its backward pass."""
    return (1.0 if weight is None else weight) / micro_batches


def step_loss(summed: torch.Tensor, step: int) -> StepLoss:
    """From the sum of `StepLosses.to_sum` over all ranks.

    Raises Mistake if the weights are not those of a step.
    """
    numbers = summed.tolist()
    count = len(numbers) // 2
    losses, weights = numbers[:count], numbers[count:]
    script_checks.raise_mistakes(_mistakes(weights, step))
    if NOT_GIVEN in weights:
        return StepLoss(sum(losses) / count, 1.0)
    total = sum(weights)
    # A micro-batch without tokens may have a loss of 0 / 0.
    pairs = zip(weights, losses, strict=True)
    loss = sum(weight * loss for weight, loss in pairs if weight) / total
    return StepLoss(loss, count / total)


def _mistakes(weights: Sequence[float], step: int) -> Iterator[str]:
    without = [number for number, weight in enumerate(weights) if weight == NOT_GIVEN]
    if without and len(without) < len(weights):
        first = next(number for number, weight in enumerate(weights) if weight != NOT_GIVEN)
        yield SOME_HAVE_NONE % (step, first, without[0])
    elif not any(weights):
        yield ALL_ARE_ZERO % step


def as_number(micro_batch: int, weight: Any) -> float:
    """What the script passed as a weight, as the ranks send it: rounded to 24 bits.

    Raises Mistake if it is no weight.
    """
    if isinstance(weight, torch.Tensor) and weight.numel() == 1:
        weight = weight.detach().item()
    is_number = isinstance(weight, Real)
    number = float(torch.tensor(float(weight), dtype=torch.float32)) if is_number else math.nan
    if not 0 <= number < math.inf:
        shape = f"of shape {tuple(weight.shape)}" if isinstance(weight, torch.Tensor) else weight
        script_checks.raise_mistakes(
            [
                f"the weight of micro-batch {micro_batch} is {shape!s}: give one finite number, at "
                "least 0, such as how many tokens the micro-batch has"
            ]
        )
    return number
