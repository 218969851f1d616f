"""A loss over the whole batch of a step, such as a contrastive one, in two passes.

The first pass runs without gradients, and all workers gather what the model makes of all
micro-batches. In the second one, the loop over micro-batches, each micro-batch computes the loss of
the whole batch, and the gradient of its own rows. The gradients of all micro-batches then add up to
that of the loss. So it is the same at every size.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch

from elastic_runtime import collective_checks
from elastic_runtime.data import random_state
from elastic_runtime.mistake import Mistake
from elastic_runtime.script_checks import raise_mistakes
from elastic_runtime.strategies.base import Pass
from elastic_runtime.training.collectives import Collectives, Stage, rows_of
from elastic_runtime.training.parts import Parts


class WholeBatch:
    """Of one step.

    `batch_of`: the micro-batch of a pass; afterwards draws are those of that pass.
    """

    def __init__(
        self, parts: Parts, collectives: Collectives, batch_of: Callable[[Pass], Any]
    ) -> None:
        self._parts = parts
        self._collectives = collectives
        self._batch_of = batch_of
        # The micro-batch whose pass runs in the loop.
        self.micro_batch = 0
        # The loss of this step is that of the whole batch.
        self.is_used = False

    def gather_batch(self, function: Callable[[Any], torch.Tensor]) -> torch.Tensor:
        name = "step.gather_batch"
        self._collectives.check_place(name)
        if self._collectives.stage is Stage.BEHIND:
            raise Mistake(collective_checks.TOO_LATE % name)
        micro_batches = self._parts.state.data.micro_batches
        if not self._parts.state.data.samples:
            raise Mistake(collective_checks.NO_INDICES)
        # With a sharded model workers wait for each other in the passes.
        self._collectives.collect(name, lambda _: True)
        own, some = self._passes(function)
        gathered = self._collectives.gather_rows(f"{name} of {rows_of(some)}", own)
        if gathered is None:
            return some.repeat(micro_batches, *[1] * (some.dim() - 1))
        return gathered

    def _passes(self, function: Callable[[Any], torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows of this worker's micro-batches, and those of one, which may be of another."""
        parts = self._parts
        data = parts.state.data
        rank, world = parts.lifecycle.rank_and_world
        passes = parts.strategy.passes(rank, world, data.micro_batches)
        results = list[tuple[Pass, torch.Tensor]]()
        with random_state.preserved(), torch.no_grad():
            # A worker without micro-batches needs to know the shape.
            for current in passes or [Pass(rank % data.micro_batches, contributes=False)]:
                result = function(self._batch_of(current))
                raise_mistakes(
                    collective_checks.tensor_mistakes("the result of step.gather_batch", result)
                )
                results.append((current, result.detach()))
                parts.buffers.end_pass(current.micro_batch, contributes=False)
        parts.strategy.end_evaluation()
        raise_mistakes(
            collective_checks.result_mistakes([tuple(result.shape) for _, result in results])
        )
        some = results[0][1]
        own = [result for current, result in results if current.contributes]
        return torch.cat(own) if own else some[:0], some

    def insert_own(self, rows: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        if self._collectives.stage is not Stage.INSIDE:
            raise Mistake(collective_checks.OUTSIDE_LOOP)
        for tensor in (rows, own):
            raise_mistakes(collective_checks.tensor_mistakes("step.insert_own", tensor))
        micro_batches = self._parts.state.data.micro_batches
        raise_mistakes(
            collective_checks.insert_mistakes(tuple(rows.shape), tuple(own.shape), micro_batches)
        )
        self.is_used = True
        first = self.micro_batch * len(own)
        scaled = own.view_as(own)
        if scaled.requires_grad:
            # The step's loss is the mean over micro-batches, of which only this one has a gradient.
            register_hook: Any = scaled.register_hook
            register_hook(lambda gradient: gradient * micro_batches)
        return torch.cat([rows[:first], scaled, rows[first + len(own) :]])


class BatchStep(Protocol):
    """What these functions need of a step."""

    whole_batch: WholeBatch


def gather_batch(self: BatchStep, function: Callable[[Any], torch.Tensor]) -> torch.Tensor:
    """What a function makes of every micro-batch of the step, on all workers, without gradients.

    Call it on all workers, before the loop over micro-batches. The function runs for each of this
    worker's micro-batches, with the random draws that the loop will have and the buffers as before.

    Args:
        function: takes a micro-batch and returns rows of it, equally many for each: (rows, ...).

    Returns:
        (rows of all micro-batches, ...): in the order of their numbers, alike on all workers and at
        every size.

    Raises:
        ValueError: for mistakes in the script.
    """
    return self.whole_batch.gather_batch(function)


def insert_own(self: BatchStep, rows: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """The rows of the whole batch, of which those of the micro-batch in flight have a gradient.

    A loss of these rows is that of the whole batch; when each micro-batch has passed it to
    `backward`, without a weight, so is the gradient of the step.

    Args:
        rows: what `gather_batch` returned.
        own: what its function returns for this micro-batch, with gradients.

    Returns:
        a tensor of the shape of `rows`.

    Raises:
        ValueError: for mistakes in the script.
    """
    return self.whole_batch.insert_own(rows, own)
