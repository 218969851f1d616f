"""The step in flight, as the training script sees it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import torch

from elastic_runtime import loss_checks, script_checks
from elastic_runtime.data import batch_assignment, random_state
from elastic_runtime.mistake import Mistake
from elastic_runtime.strategies.base import Pass
from elastic_runtime.training.parts import Parts


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch.

    Attributes:
        number: in the step, over all ranks, from 0.
        indices: `micro_batch_size` samples of the dataset; empty if they come from streams.
        contributes: False: the pass has weight 0 and runs only because other ranks need its
            collectives. Any sample will do.
    """

    number: int
    indices: list[int]
    contributes: bool = True


class Step:
    """Iterate over it for this rank's micro-batches, and pass the loss of each to `backward`.

    Attributes:
        number: how many steps are committed.
        loss: (1,): this rank's part of the step's mean loss so far.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.number = parts.state.step
        self.loss = torch.zeros(1, device=parts.state.device)
        # The norm to clip the gradient to.
        self.max_norm: float | None = None
        self._weight = 1.0
        self._scheduler_counts = script_checks.step_counts(parts.state.lr_schedulers)
        # The micro-batch that still needs its backward pass.
        self._pending: int | None = None
        # Micro-batches that the script has not taken; None until it has begun to.
        self._remaining: int | None = None
        self._backward_calls = 0
        self._seed("before")

    @property
    def indices(self) -> NoReturn:
        """Of a micro-batch only. Raises Mistake."""
        raise Mistake(script_checks.NO_INNER_LOOP)

    @property
    def broken(self) -> bool:
        """A peer was lost: what is computed now will be discarded."""
        return self._parts.strategy.broken

    def __iter__(self) -> Iterator[Batch]:
        passes = self._passes()
        self._remaining = len(passes)
        for current in passes:
            if self.broken:
                return
            self._remaining -= 1
            batch = self._begin_pass(current, is_last=self._remaining == 0)
            self._pending = current.micro_batch
            yield batch
            script_checks.raise_mistakes(
                script_checks.missing_backward_mistakes(self.number, self._pending)
            )
            self._parts.strategy.end_pass(current.micro_batch)
            self._parts.buffers.end_pass(current.micro_batch, contributes=current.contributes)
        self._seed("after")

    def _seed(self, place: str) -> None:
        """What the body draws outside its micro-batches, alike on every rank."""
        seed = self._parts.state.data.seed
        random_state.seed(batch_assignment.random_seed(seed, self.number, 0, place))

    def _passes(self) -> list[Pass]:
        rank, world = self._parts.lifecycle.rank_and_world
        return self._parts.strategy.passes(rank, world, self._parts.state.data.micro_batches)

    def _begin_pass(self, current: Pass, *, is_last: bool) -> Batch:
        parts = self._parts
        data = parts.state.data
        number = current.micro_batch
        random_state.seed(batch_assignment.random_seed(data.seed, self.number, number))
        indices = list[int]()
        if data.samples:
            indices = batch_assignment.samples(
                data.seed,
                data.samples,
                self.number,
                number,
                data.micro_batches,
                data.micro_batch_size,
            )
        if current.contributes:
            generation = parts.lifecycle.generation
            parts.journal.sample(self.number + 1, number, indices, generation)
        self._weight = 1 / data.micro_batches if current.contributes else 0.0
        parts.strategy.begin_pass(is_last=is_last)
        return Batch(number, indices, current.contributes)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of this micro-batch. Call it exactly once for each.

        The step's loss is the mean over all micro-batches.

        Args:
            loss: () or (1,): the mean over the micro-batch.

        Raises:
            ValueError: if it is not a single number that depends on the parameters.
        """
        script_checks.raise_mistakes(
            script_checks.backward_mistakes(self.number, self._pending, loss)
        )
        self._pending = None
        if not self._backward_calls:
            data = self._parts.state.data
            warning = loss_checks.scaled_loss_warning(
                loss, data.micro_batches, data.micro_batch_size
            )
            if warning:
                self._parts.warn_once(warning)
        if not self.broken:
            self._parts.strategy.check_gradients(is_first=not self._backward_calls)
        self._backward_calls += 1
        (loss * self._weight).backward()  # type: ignore[no-untyped-call]
        self._parts.strategy.end_backward()
        self.loss += loss.detach().to(self.loss) * self._weight

    def clip(self, max_norm: float) -> None:
        """Scale the step's whole gradient, over all ranks, down to this 2-norm if it is longer.

        It happens when the step is committed; `session.gradient_norm` is the norm before.

        Args:
            max_norm: in the unit of the gradient of the mean loss.
        """
        self.max_norm = max_norm

    def check_finished(self) -> None:
        """Raises ValueError if the script left the step before its end."""
        if self.broken:
            return
        remaining = len(self._passes()) if self._remaining is None else self._remaining
        schedulers = self._parts.state.lr_schedulers
        script_checks.raise_mistakes(
            [
                *script_checks.unfinished_step_mistakes(self.number, self._pending, remaining),
                *script_checks.scheduler_step_mistakes(self._scheduler_counts, schedulers),
                *self._parts.strategy.parameter_mistakes(),
            ]
        )
        if self._backward_calls:
            self._parts.strategy.check_gradients(is_first=False)
