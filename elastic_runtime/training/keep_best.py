"""`session.keep_best`: the state with the best value stays on disk."""

from numbers import Real
from typing import Protocol

import torch

from elastic_runtime import evaluation_checks, session_checks
from elastic_runtime.checkpointing.best_mark import BestMark
from elastic_runtime.script_checks import raise_mistakes
from elastic_runtime.training.parts import Parts
from elastic_runtime.training.transaction import StepTransaction


class SavingSession(Protocol):
    """What `keep_best` needs of a session."""

    _parts: Parts
    _transaction: StepTransaction


@session_checks.checks_arguments("session.keep_best")
def keep_best(self: SavingSession, value: float, *, lower_is_better: bool = True) -> None:
    """Save the present state, and keep that checkpoint, if its value is the best so far.

    Call it where `evaluate` is called, on all ranks. The state is saved with the commit of the next
    step, in the background; the checkpoint is marked as the best when it is durable, and stays
    until a better one is. Also after a restart a value has to be better than the marked one.
    `restore.best` finds the checkpoint. Behind the loop, where the state is durable already, it is
    marked when this returns, on every rank.

    Args:
        value: what was measured of the state, such as a loss; NaN is never the best.
        lower_is_better: False for a value such as an accuracy.

    Raises:
        ValueError: for mistakes in the script.
    """
    parts = self._parts
    is_number = isinstance(value, Real) or (isinstance(value, torch.Tensor) and value.numel() == 1)
    raise_mistakes(
        evaluation_checks.best_mistakes(
            value,
            is_number=is_number,
            has_directory=parts.saver.directory is not None,
            is_in_loop=parts.state.is_complete,
        )
    )
    step = parts.state.step
    best = parts.saver.best
    best.request(BestMark(step, float(value), lower_is_better))
    if not self._transaction.has_ended:
        return
    # The last state is saved already.
    if parts.lifecycle.rank == 0:
        best.is_due(step)
    else:
        best.wait_for_mark()
