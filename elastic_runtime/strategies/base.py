"""The interface between a session and the strategy that spreads its model over the ranks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.recovery import RecoveryPlan
from elastic_runtime.state.destination import Destination, Saved
from elastic_runtime.state.optimizers import Optimizers


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward and backward pass of a rank."""

    micro_batch: int
    # False: the pass has weight 0 and runs only because other ranks need its collectives.
    contributes: bool = True


class StateAccess(Protocol):
    """What a strategy uses of the training state (training/state.py)."""

    model: torch.nn.Module
    optimizers: Optimizers
    # Where the model trains.
    device: torch.device
    # Committed steps.
    step: int

    @property
    def seed(self) -> int:
        """The session's."""

    @property
    def sum_count(self) -> int:
        """How many numbers `Strategy.reduce` sums beside the gradients."""

    @property
    def scales_loss(self) -> bool:
        """Whether `Strategy.is_finite` is called in every step."""

    def state_dict(self) -> dict[str, Any]: ...
    def digest(self) -> bytes:
        """Of `state_dict`; empty if tensors in it may still change by themselves."""

    def extra_state(self) -> dict[str, Any]: ...
    def set_extra_state(self, state: dict[str, Any]) -> None: ...
    def find_saved(self, group: Group | None) -> Saved: ...
    def load_newest(self, group: Group | None) -> bool: ...
    def load_rows(self, group: Group, destination: Callable[[], Destination]) -> None: ...
    def receive(self, group: Group, source: int) -> None: ...


class Strategy(Protocol):
    """How a model is spread over the ranks, and how its gradients are summed.

    The state does not change between `begin_step` and `write_gradients`, so a step that fails in
    between costs only itself.

    `broken`: a peer is lost, so this step cannot be committed. Only `enter` and `hand_over` raise
    for a lost peer: an exception inside the script's forward or backward pass would end the script.
    """

    @property
    def broken(self) -> bool: ...

    def model_mistakes(self, model: torch.nn.Module) -> Iterable[str]:
        """Why a model cannot be trained so. Called before `attach`."""

    def attach(self, state: StateAccess) -> None:
        """Called once, when the session is created."""

    def detach(self) -> None:
        """Called once, when the loop over steps has ended: take back what `attach` did."""

    def shard_group_size(self, world: int) -> int:
        """How many neighbouring ranks share one copy of the state; 0 if each holds all of it."""

    def passes(self, rank: int, world: int, micro_batches: int) -> list[Pass]:
        """The passes of this rank in a step.

        Over all ranks, exactly one pass over each micro-batch contributes.
        """

    def begin_step(self, group: Group | None) -> None:
        """Afterwards there are no gradients. `group`: None in a job of one."""

    def begin_pass(self, *, is_last: bool) -> None:
        """`is_last`: it is this rank's last pass in the step."""

    def check_gradients(self, *, is_first: bool) -> None:
        """Raises ValueError if gradients of earlier passes are missing.

        Called before each backward pass and after the last one. `is_first`: before the first one
        of the step.
        """

    def parameter_mistakes(self) -> Iterable[str]:
        """If parameters would be trained whose gradients are not summed. Called after the passes of
        a step."""

    def backward(self, loss: torch.Tensor, weight: float) -> None:
        """The backward pass of weight * loss. Weight 0 adds nothing, whatever the loss is."""

    def end_pass(self, micro_batch: int) -> None: ...

    def end_passes(self) -> None:
        """Start what passes start on some ranks earlier than on others.

        Called on all ranks before a collective of the script's own that follows the passes.
        """

    def reduce(self, numbers: torch.Tensor, max_norm: float | None) -> bool:
        """Sum the gradients and `numbers` over all ranks. True if all sums are here.

        `numbers`: (sum_count,). `max_norm`: the norm to which `write_gradients` clips; None if it
        does not clip.
        """

    def summed(self) -> torch.Tensor:
        """(sum_count,): the sums of `numbers`. Called before `write_gradients`."""

    def is_finite(self) -> bool:
        """Whether the summed gradients are, alike on every rank. Called before `write_gradients`,
        and only if the state `scales_loss`."""

    def write_gradients(self, factor: float) -> float | None:
        """Multiply the summed gradients by `factor`, clip them, and put them where the optimizer
        reads them.

        Returns the gradient's norm if it was to be clipped.
        """

    def begin_evaluation(self) -> None:
        """Passes without a backward pass follow. Afterwards no peer counts as lost, if a pass needs
        others."""

    def end_evaluation(self) -> None:
        """Afterwards parameters are as before those passes."""

    def hand_over(self, group: Group, next_ranks: tuple[int, ...], next_world: int) -> None:
        """Give the state of the ranks that leave to those that stay; called between two steps.

        `group`: the old one. `next_ranks`: by old rank, the rank in the next generation, -1 for a
        rank that leaves. `next_world`: how many ranks it has. Raises PeerLost if a peer is
        lost.
        """

    def enter(self, group: Group | None, recovery: RecoveryPlan) -> None:
        """Give every rank of the new group the state of `recovery.step`.

        `group`: None in a job of one. Raises PeerLost if a peer is lost.
        """
