"""What a way of spreading a model over ranks has to know: the session's side of replicated and
sharded training."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.recovery import RecoveryPlan


@dataclass(frozen=True, slots=True)
class Turn:
    """One forward and backward pass of a rank."""

    # of the micro-batch
    number: int
    # False: run for the sake of the other ranks' collectives, with weight 0
    counts: bool = True


class Training(Protocol):
    """What a strategy sees of the session."""

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer

    def state(self) -> dict[str, Any]: ...
    def set_state(self, state: dict[str, Any]) -> None: ...
    def rest(self) -> dict[str, Any]: ...
    def set_rest(self, rest: dict[str, Any]) -> None: ...
    def load(self, group: Group | None) -> bool: ...
    def receive(self, group: Group, source: int) -> None: ...


class Strategy(Protocol):
    """Nothing of a rank's own changes between `start` and `give_gradients`, so a step that breaks
    on the way costs itself only.

    `broken`: a peer is gone. No method but `enter` and `hand_over` raises for that: errors inside
    the script's passes would end it.
    """

    broken: bool

    def attach(self, session: Training) -> None:
        """Once, when the session is made."""

    def shards(self, world: int) -> int:
        """How many neighbouring ranks of `world` hold the model's state together; 0 where each
        holds all."""

    def turns(self, rank: int, world: int, micro_batches: int) -> list[Turn]:
        """The passes of this rank in a step: over all ranks every micro-batch counts exactly
        once."""

    def start(self, group: Group | None) -> None:
        """A step begins, with no gradients."""

    def before(self, turn: Turn, *, last: bool) -> None:
        """A pass begins."""

    def check_gradients(self, *, first: bool) -> None:
        """Before each backward, the step's `first` or not, and after the last. Raises ValueError if
        earlier passes' gradients are gone."""

    def after(self, turn: Turn) -> None:
        """It ended."""

    def reduce(self, loss: torch.Tensor, max_norm: float | None) -> bool:
        """Whether every gradient and the loss are reduced here: summed over all ranks. `max_norm`:
        to clip the gradient to, if at all."""

    def give_gradients(self) -> tuple[float, float | None]:
        """The reduced gradients are where the optimizer reads them, clipped. The step's loss, and
        the gradient's norm if it was to be."""

    def hand_over(self, group: Group, places: tuple[int, ...], world: int) -> None:
        """Between two steps, in the old group: afterwards those who stay hold all of the state.

        `places`: by old rank, the rank in the next generation, -1 for one that leaves. `world`: the
        next generation's size.
        """

    def enter(self, group: Group | None, recovery: RecoveryPlan) -> None:
        """Every rank of the new group (None: a job of one) has the state of `recovery.step`. Raises
        RuntimeError if a peer is lost."""
