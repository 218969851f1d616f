"""The step in flight, as the training script sees it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from elastic_runtime import script_checks
from elastic_runtime.data import batch_assignment, random_state

if TYPE_CHECKING:
    from elastic_runtime.session import Session


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch: its number in the step, and which samples of the dataset it holds."""

    number: int
    # empty where samples come from streams
    indices: list[int]
    # False: a pass for the sake of the other ranks' collectives; any sample will do
    counts: bool = True


class Step:
    """The step in flight: iterate over it for this rank's micro-batches, and give each one's loss
    to `backward`."""

    def __init__(self, session: "Session", number: int) -> None:
        self._session = session
        self.number = number
        # (1,) this rank's part of the mean loss
        self.loss = torch.zeros(1, device=session.device)
        self._weight, self._ticks = 1.0, script_checks.step_counts(session.lr_schedulers)
        # the micro-batch that is in the script's hands
        self._waiting: int | None = None
        # how many it has not taken yet
        self._left: int | None = None
        self._passes = 0

    @property
    def broken(self) -> bool:
        """Somebody was lost: what is computed now will be thrown away."""
        return self._session.strategy.broken

    def __iter__(self) -> Iterator[Batch]:
        s = self._session
        turns = s.strategy.turns(s.rank, s.world, s.micro_batches)
        self._left = len(turns)
        for at, turn in enumerate(turns):
            if self.broken:
                return
            random_state.seed(batch_assignment.random_seed(s.seed, self.number, turn.number))
            where = (self.number, turn.number, s.micro_batches, s.micro_batch_size)
            indices = batch_assignment.samples(s.seed, s.samples, *where) if s.samples else []
            if turn.counts:
                s.journal.sample(self.number + 1, turn.number, indices, s.generation)
            self._weight = 1 / s.micro_batches if turn.counts else 0.0
            s.strategy.before(turn, last=at == len(turns) - 1)
            self._left = self._left - 1
            self._waiting = turn.number
            yield Batch(turn.number, indices, turn.counts)
            script_checks.raise_mistakes(script_checks.missing_backward_mistakes(self.number, self._waiting))
            s.strategy.after(turn)
            s.buffers.after(turn.number, counts=turn.counts)

    def backward(self, loss: torch.Tensor) -> None:
        """Add this micro-batch's gradients. `loss` is its mean, a scalar; the step's loss is the
        mean over all micro-batches.

        Raises ValueError for anything but one number that depends on the parameters, once for each
        micro-batch.
        """
        script_checks.raise_mistakes(script_checks.backward_mistakes(self.number, self._waiting, loss))
        self._waiting = None
        if not self.broken:
            self._session.strategy.check_gradients(first=not self._passes)
        self._passes += 1
        (loss * self._weight).backward()  # type: ignore[no-untyped-call]
        self.loss += loss.detach().to(self.loss) * self._weight

    def clip(self, max_norm: float) -> None:
        """When the step is committed its whole gradient, over all ranks, is scaled down to this
        2-norm if it is longer.

        `session.gradient_norm` says afterwards how long it was.
        """
        self._session.max_norm = max_norm

    def check(self) -> None:
        """Raises ValueError if the script left the step before its end."""
        if not self.broken:
            s = self._session
            left = (
                len(s.strategy.turns(s.rank, s.world, s.micro_batches))
                if self._left is None
                else self._left
            )
            script_checks.raise_mistakes(
                [
                    *script_checks.unfinished_step_mistakes(self.number, self._waiting, left),
                    *script_checks.scheduler_step_mistakes(self._ticks, s.lr_schedulers),
                ]
            )
            if self._passes:
                s.strategy.check_gradients(first=False)
