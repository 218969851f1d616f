"""Sharded training with torch's FSDP2, at a number of ranks that may change between two steps.

    def wrap(model, mesh):
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)

    session = Session(model, optimizer, strategy=Sharded(wrap), ...)

At every resize the model is unwrapped and wrapped again in place, and rows move between ranks.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from elastic_runtime import parameter_checks, script_checks, session_checks
from elastic_runtime.data import batch_assignment
from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.recovery import RecoveryPlan
from elastic_runtime.state import reshard_plan
from elastic_runtime.strategies import meta_model
from elastic_runtime.strategies.base import Pass, StateAccess
from elastic_runtime.strategies.finite_gradients import all_finite
from elastic_runtime.strategies.meta_model import Initialize
from elastic_runtime.strategies.peer_copies import PeerCopies
from elastic_runtime.strategies.resharding import Resharding
from elastic_runtime.strategies.sharded_model import ShardedModel, Wrap, is_sharded, shard_of


class Sharded:
    """A strategy: FSDP2, at a number of ranks that may change between two steps.

    If a lost shard has another copy, only the step in flight is lost. Otherwise the job goes back
    to the newest peer copies or else to the newest checkpoint, and repeats the steps since.

    Every pass gathers the parameters from all ranks, so a rank with fewer micro-batches than others
    runs additional passes with weight 0.

    A model that was built under `torch.device("meta")` is never whole on a rank. It trains on
    `session.device`. Without a checkpoint its values are those after `torch.manual_seed(seed)` and
    `model.apply(initialize)`, with the session's seed. Any other model every rank builds whole.

    Args:
        wrap: `wrap(model, mesh)` calls `fully_shard` on the modules to wrap, with mixed precision
            if wanted; it is called at every resize.
        initialize: of a model on the meta device: called with each module, submodules first, it
            writes the module's tensors, and only to what `wrap` shards together with it. Modules
            that it leaves alone, and all if it is None, get the values of `reset_parameters`.
        shard_group_size: at least that many ranks share one copy of the state, namely the smallest
            divisor of the job's size that is not below it; there are as many copies as groups
            (HSDP). If None, all ranks share a single copy (FSDP).
        peer_copy_every: every so many steps each rank copies its shard to a neighbour's host
            memory; 0: never. It needs memory for two shards, four while a copy is taken.
    """

    @session_checks.checks_arguments("Sharded")
    def __init__(
        self,
        wrap: Wrap,
        *,
        initialize: Initialize | None = None,
        shard_group_size: int | None = None,
        peer_copy_every: int = 0,
    ) -> None:
        self._wrap = wrap
        self._initialize = initialize
        self._min_group_size = shard_group_size
        self.broken = False
        self._peer_copies = PeerCopies(peer_copy_every)
        self._max_norm: float | None = None
        # Of this rank's gradients after the last pass.
        self._norm: torch.Tensor | None = None

    def model_mistakes(self, model: torch.nn.Module) -> Iterable[str]:
        return meta_model.mistakes(model, self._initialize)

    def attach(self, state: StateAccess) -> None:
        self._state = state
        self._names = {name for name, _ in state.model.named_parameters()}
        self._model = ShardedModel(
            self._wrap, self._initialize, state.model, state.optimizers, state.device
        )
        self._resharding = Resharding(state, self._model, self._peer_copies)
        # The pass that runs adds nothing to the gradients.
        self._discards = False

    def detach(self) -> None:
        """Nothing to do: the model stays sharded."""

    def shard_group_size(self, world: int) -> int:
        return reshard_plan.shard_group_size(world, self._min_group_size or world)

    def passes(self, rank: int, world: int, micro_batches: int) -> list[Pass]:
        size = self.shard_group_size(world)
        first_rank = rank - rank % size
        most = max(
            len(batch_assignment.owned(peer, world, micro_batches))
            for peer in range(first_rank, first_rank + size)
        )
        own = batch_assignment.owned(rank, world, micro_batches)
        repeated = own[-1] if own else rank % micro_batches
        additional = [Pass(repeated, contributes=False)] * (most - len(own))
        return [Pass(number) for number in own] + additional

    def begin_step(self, group: Group | None) -> None:
        self.broken = False
        self._norm = None
        for p in self._state.model.parameters():
            p.grad = None
        self._peer_copies.step_committed(self._state.step)
        if self._peer_copies.is_due(self._state.step, self._group):
            self._unless_broken(self._take_peer_copy)

    def _take_peer_copy(self) -> None:
        own = self._model.read(shard_of(self._group, self._group.rank))
        self._peer_copies.take(self._group, own, self._state.extra_state())

    def begin_pass(self, *, is_last: bool) -> None:
        self._in_last_pass = is_last

    def check_gradients(self, *, is_first: bool) -> None:
        if not is_first:
            script_checks.raise_mistakes(script_checks.gradient_mistakes(self._gradients))
            if self._norm is not None and not torch.equal(self._norm, self._own_norm()):
                script_checks.raise_mistakes([script_checks.GRADIENTS_CHANGED])

    def parameter_mistakes(self) -> Iterable[str]:
        """fully_shard replaces parameters, and sums those that are unfrozen.

        It holds some of them as plain tensors between a forward and a backward pass, but never
        their gradients.
        """
        parameters = dict(self._state.model.named_parameters())
        changes = {name: "added" for name in parameters if name not in self._names}
        changes |= {name: "removed" for name in self._names if name not in parameters}
        for name, p in parameters.items():
            if name in self._names and p.grad is not None and not is_sharded(p.grad):
                changes[name] = "replaced"
        if changes:
            yield script_checks.PARAMETERS_CHANGED % min(changes.items())
            return
        groups = self._state.optimizers.param_groups
        if not all(is_sharded(p) for group in groups for p in group["params"]):
            yield parameter_checks.OPTIMIZER_CHANGED

    def backward(self, loss: torch.Tensor, weight: float) -> None:
        """Every pass needs its collectives."""
        # A loss of 0 / 0 has gradients that are not finite, whatever they are multiplied by.
        self._discards = not weight
        # With whole parameters, FSDP2 makes no collective that could discard them.
        is_whole = self._group.shard_group_size == 1
        kept = self._model.copy_gradients() if self._discards and is_whole else {}
        (loss * weight).backward()  # type: ignore[no-untyped-call]
        for p, gradient in kept.items():
            p.grad = gradient
        self._end_backward()

    def _end_backward(self) -> None:
        self._gradients = script_checks.gradient_versions(self._model.trained_parameters)
        if self._in_last_pass:
            script_checks.raise_mistakes(self.parameter_mistakes())
            # DTensor does not count the writes of clip_grad_norm_.
            self._norm = self._own_norm()

    def _own_norm(self) -> torch.Tensor:
        """Of this rank's rows of the gradients."""
        gradients = [p.grad for p in self._model.trained_parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm([gradient.to_local() for gradient in gradients])
        return norm.nan_to_num()

    def end_pass(self, micro_batch: int) -> None:
        """Nothing to do: FSDP2 has reduced the gradients."""

    def end_passes(self) -> None:
        """Nothing to do: all ranks of a shard group have equally many passes."""

    def _unless_broken(self, call: Callable[[], Any]) -> None:
        """A lost peer is noted, not raised: it would end the user's script inside a pass."""
        if not self.broken:
            try:
                call()
            except PeerLost:
                self.broken = True

    def _all_gather(self, output: torch.Tensor, source: torch.Tensor) -> None:
        self._unless_broken(lambda: self._group.all_gather_shards(output, source))

    def _reduce_scatter(self, output: torch.Tensor, source: torch.Tensor) -> None:
        if self._discards:
            source.zero_()
        self._unless_broken(lambda: self._group.reduce_scatter_shards(output, source))

    def reduce(self, numbers: torch.Tensor, max_norm: float | None) -> bool:
        self._max_norm = max_norm
        for p in self._model.trained_parameters:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        self._unless_broken(self._reduce_replicas)
        squares = 0.0
        if max_norm is not None:
            # Every copy of a shard has the same gradients.
            copies = self._group.world // self._group.shard_group_size
            squares = sum(float(g.double().square().sum()) for g in self._model.gradients) / copies
        if self._state.scales_loss and not all_finite(self._model.gradients):
            # No rank sees the shards of the others. A sum with it is not finite on any rank.
            squares = math.nan
        # (sum_count + 1,): the numbers, the square of the gradient's norm. A collective of a failed
        # step may still write to the old ones.
        self._totals = torch.cat([numbers, numbers.new_tensor([squares])]).to(self._model.device)
        self._unless_broken(lambda: self._group.all_reduce(self._totals).wait())
        return not self.broken

    def _reduce_replicas(self) -> None:
        if self._group.world == self._group.shard_group_size:
            return
        for dtype in sorted({g.dtype for g in self._model.gradients}, key=str):
            gradients = [g for g in self._model.gradients if g.dtype == dtype]
            flat = torch.cat([g.reshape(-1) for g in gradients])
            self._group.all_reduce_replicas(flat)
            sums = torch.split(flat, [g.numel() for g in gradients])
            for gradient, summed in zip(gradients, sums, strict=True):
                gradient.copy_(summed.view_as(gradient))

    def summed(self) -> torch.Tensor:
        return self._totals[:-1]

    def is_finite(self) -> bool:
        """False also for a norm that is too large to be summed: it could not be clipped."""
        return math.isfinite(self._totals[-1])

    def write_gradients(self, factor: float) -> float | None:
        norm = None
        if self._max_norm is not None:
            norm = float(self._totals[-1].sqrt()) * factor
            # As torch.nn.utils.clip_grad_norm_ does.
            factor *= min(1.0, self._max_norm / (norm + 1e-6))
        if factor != 1.0:
            for gradient in self._model.gradients:
                gradient.mul_(factor)
        return norm

    def begin_evaluation(self) -> None:
        self.broken = False

    def end_evaluation(self) -> None:
        self._model.end_forward()

    def hand_over(self, group: Group, next_ranks: tuple[int, ...], next_world: int) -> None:
        self._resharding.hand_over(group, next_ranks, self.shard_group_size(next_world))

    def enter(self, group: Group | None, recovery: RecoveryPlan) -> None:
        group = group or Group(0, 0, 1, 1).connect_alone()
        self._resharding.enter(group, recovery, self._all_gather, self._reduce_scatter)
        self._group = group
