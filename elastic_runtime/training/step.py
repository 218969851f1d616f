"""The step in flight, as the training script sees it."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NoReturn, Protocol

import torch

from elastic_runtime import (
    collective_checks,
    evaluation_checks,
    loss_checks,
    script_checks,
    session_checks,
)
from elastic_runtime.data import batch_assignment, random_state
from elastic_runtime.data.map_dataset import OneStep
from elastic_runtime.mistake import Mistake
from elastic_runtime.strategies.base import Pass
from elastic_runtime.training import collectives, loss_weights, whole_batch
from elastic_runtime.training.collectives import Collectives, Stage
from elastic_runtime.training.parts import Parts
from elastic_runtime.training.whole_batch import WholeBatch


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


class Source(Protocol):
    """Data of the session."""

    def batches(self, step: OneStep) -> Iterator[Any]:
        """This rank's micro-batches of the step, collated."""


class Step:
    """Iterate over it for this rank's micro-batches, and pass the loss of each to `backward`.

    Attributes:
        number: how many steps are committed.
        contributes: of the micro-batch that the script has taken, as in `Batch`.
    """

    def __init__(self, parts: Parts, source: Source | None, max_norm: float | None) -> None:
        self._parts = parts
        self._source = source
        self.number = parts.state.step
        self.losses = loss_weights.StepLosses(parts.state.data.micro_batches, parts.state.device)
        # The norm to clip the gradient to.
        self.max_norm = max_norm
        self.contributes = True
        self._scheduler_counts = script_checks.step_counts(parts.state.lr_schedulers)
        # The micro-batch that still needs its backward pass.
        self._pending: int | None = None
        # Micro-batches that the script has not taken; None until it has begun to.
        self._remaining: int | None = None
        self._backward_calls = 0
        # The job went back to an older step, or on to a newer one, while the script evaluated.
        self.is_superseded = False
        self._extra_state: dict[str, Any] = {}
        # An evaluation raised an error.
        self.has_error = False
        self.collectives = Collectives(parts, self.number, lambda: self.broken)
        self.whole_batch = WholeBatch(parts, self.collectives, self._batch)
        self._seed("before")

    @property
    def indices(self) -> NoReturn:
        """Of a micro-batch only. Raises Mistake."""
        raise Mistake(script_checks.NO_INNER_LOOP)

    @property
    def data(self) -> Iterator[Any]:
        """This rank's micro-batches of the session's `data`, in the order of their numbers,
        collated. ValueError if the session was given no data."""
        if self._source is None:
            raise Mistake(script_checks.NO_DATA)
        return self._source.batches(self)

    @property
    def loss(self) -> torch.Tensor:
        """(1,): this rank's part of the step's mean loss so far; with weights, its part of the sum
        of weight * loss."""
        return self.losses.part()

    @property
    def broken(self) -> bool:
        """A peer was lost: what is computed now will be discarded."""
        is_cut = self.collectives.peer_lost or self._parts.strategy.broken
        return self.is_superseded or is_cut

    @property
    def has_begun(self) -> bool:
        """The script has asked for a micro-batch."""
        return self._remaining is not None

    def __iter__(self) -> Iterator[Batch]:
        self._raise_error_caught()
        self.collectives.enter(Stage.INSIDE)
        passes = self._passes()
        self._remaining = len(passes)
        for current in passes:
            if self.broken:
                return
            self._remaining -= 1
            batch = self._begin_pass(current, is_last=self._remaining == 0)
            self._pending = current.micro_batch
            self.whole_batch.micro_batch = current.micro_batch
            yield batch
            script_checks.raise_mistakes(
                script_checks.missing_backward_mistakes(self.number, self._pending)
            )
            self._parts.strategy.end_pass(current.micro_batch)
            self._parts.buffers.end_pass(current.micro_batch, contributes=current.contributes)
        self.collectives.enter(Stage.BEHIND)
        self._seed("after")

    def supersede(self) -> None:
        """The state is that of another step: what the body does from here on has no effect."""
        self.is_superseded = True
        self._extra_state = deepcopy(self._parts.state.extra_state())

    def restore_objects(self) -> None:
        """Undo what the body has done to the state since it was superseded."""
        self._parts.state.set_extra_state(self._extra_state)

    def _raise_error_caught(self) -> None:
        if self.has_error:
            raise Mistake(evaluation_checks.ERROR_CAUGHT)

    def _seed(self, place: str) -> None:
        """What the body draws outside its micro-batches, alike on every rank."""
        seed = self._parts.state.data.seed
        random_state.seed(batch_assignment.random_seed(seed, self.number, 0, place))

    def _passes(self) -> list[Pass]:
        rank, world = self._parts.lifecycle.rank_and_world
        return self._parts.strategy.passes(rank, world, self._parts.state.data.micro_batches)

    def _begin_pass(self, current: Pass, *, is_last: bool) -> Batch:
        parts = self._parts
        batch = self._batch(current)
        if current.contributes:
            generation = parts.lifecycle.generation
            parts.journal.sample(self.number + 1, batch.number, batch.indices, generation)
        self.contributes = current.contributes
        parts.strategy.begin_pass(is_last=is_last)
        return batch

    def _batch(self, current: Pass) -> Batch:
        """The micro-batch; afterwards draws are those of a pass over it."""
        data = self._parts.state.data
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
        return Batch(number, indices, current.contributes)

    def backward(self, loss: torch.Tensor, *, weight: float | torch.Tensor | None = None) -> None:
        """Add the gradients of this micro-batch. Call it exactly once for each.

        The step's loss is the mean over all micro-batches; with weights, the sum of weight * loss
        over the sum of the weights, of all micro-batches on all ranks.

        Args:
            loss: () or (1,): the mean over the micro-batch.
            weight: how much the micro-batch counts, such as its number of tokens; () or (1,) or a
                number, rounded to 24 bits. 0: nothing, whatever its loss is. For every micro-batch
                of a step, or for none.

        Raises:
            ValueError: if the loss is not a single number that depends on the parameters; if the
                weight is not a finite number, at least 0.
        """
        number = self._pending
        script_checks.raise_mistakes(script_checks.backward_mistakes(self.number, number, loss))
        assert number is not None
        self._pending = None
        if weight is not None and self.whole_batch.is_used:
            raise Mistake(collective_checks.WEIGHTED % number)
        own_weight = None
        # In a broken step a weight may be 0 / 0, as in `clip`.
        if not self.broken:
            is_first = not self._backward_calls
            own_weight = None if weight is None else loss_weights.as_number(number, weight)
            if is_first:
                self._warn_of_scaled_loss(loss, own_weight)
            self._parts.strategy.check_gradients(is_first=is_first)
        self._backward_calls += 1
        micro_batches = self._parts.state.data.micro_batches
        factor = loss_weights.scale(own_weight, micro_batches) if self.contributes else 0.0
        self._parts.strategy.backward(loss, factor * self._parts.state.loss_scaling.multiplier)
        if self.contributes:
            self.losses.add(number, loss, own_weight)

    def _warn_of_scaled_loss(self, loss: torch.Tensor, weight: float | None) -> None:
        data = self._parts.state.data
        warning = loss_checks.scaled_loss_warning(
            loss, data.micro_batches, data.micro_batch_size, weight
        )
        if warning:
            self._parts.warn_once(warning)

    all_reduce = collectives.all_reduce
    all_gather = collectives.all_gather
    gather_batch = whole_batch.gather_batch
    insert_own = whole_batch.insert_own

    # In a broken step, a script may compute 0 / 0 from what its collectives return.
    @session_checks.checks_arguments("step.clip", unless=attrgetter("broken"))
    def clip(self, max_norm: float) -> None:
        """Scale the step's whole gradient, over all ranks, down to this 2-norm if it is longer.

        It happens when the step is committed; `session.gradient_norm` is the norm before. For a
        norm that is the same in all steps use `Session(clip=...)`.

        Args:
            max_norm: in the unit of the gradient of the mean loss.
        """
        self.max_norm = max_norm

    def check_finished(self) -> None:
        """Raises ValueError if the script left the step before its end."""
        self._raise_error_caught()
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
