"""Sharded training by torch's FSDP2: the model is taken out of its wrapping in place at every
resize, and rows move from rank to rank.

def wrap(model, mesh):
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)

session = Session(model, optimizer, strategy=Sharded(wrap), ...)
"""

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from elastic_runtime import script_checks
from elastic_runtime.data import batch_assignment
from elastic_runtime.distributed import state_transfer
from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.recovery import RecoveryPlan
from elastic_runtime.state import reshard_plan
from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.strategies import fsdp2_internals, sharded_state
from elastic_runtime.strategies.base import Training, Turn
from elastic_runtime.strategies.peer_copies import Spares, newest_whole
from elastic_runtime.strategies.sharded_state import Held, Table, carry

log = logging.getLogger(__name__)


class Sharded:
    """`wrap(model, mesh)` calls `fully_shard` on what the script wants wrapped, mixed precision
    included; it is called at every resize.

    Without `shard_group_size` each rank holds its own part of the state and nobody else does (FSDP). With
    it, that many ranks or a few more share
    one copy and there are as many copies as fit (HSDP): the smallest divisor of the job's size that
    is at least `shard_group_size`. Where a lost
    part has a copy, nothing is lost but the step in flight. Where it has none the job goes back to
    the newest spare, which every rank
    leaves with its neighbour each `peer_copy_every` steps (0: never; it costs the memory of two parts,
    four while it is taken), else to the
    newest save, and does those steps again. Each pass gathers the parameters, so ranks with fewer
    micro-batches run passes of weight 0.
    Every rank builds the whole model once, at its start.
    """

    def __init__(
        self,
        wrap: Callable[[Any, DeviceMesh], None],
        *,
        shard_group_size: int | None = None,
        peer_copy_every: int = 0,
    ) -> None:
        self._wrap = wrap
        self._copies_of = shard_group_size
        self.broken = False
        self._spares = Spares(peer_copy_every)
        # handed over by those who leave
        self._staged: dict[Shard, list[torch.Tensor]] = {}
        # what this rank held when a regrouping began that has not succeeded yet
        self._last: Held | None = None
        self._max_norm: float | None = None

    def attach(self, session: Training) -> None:
        fsdp2_internals.require()
        self._session = session
        name_of = {id(p): name for name, p in session.model.named_parameters()}
        self._names = [
            [name_of[id(p)] for p in group["params"]] for group in session.optimizer.param_groups
        ]
        script_checks.raise_mistakes(script_checks.device_mistakes(session.model.parameters()))
        device = next(session.model.parameters()).device
        if device.type == "cuda":
            # fully_shard takes the current one
            torch.cuda.set_device(device)
        self._device = device.type
        # (2,): the step's loss, the square of its gradient's norm
        self._totals = torch.zeros(2, device=device)

    def shards(self, world: int) -> int:
        return reshard_plan.shard_group_size(world, self._copies_of or world)

    def turns(self, rank: int, world: int, micro_batches: int) -> list[Turn]:
        of = self.shards(world)
        mine = batch_assignment.owned(rank, world, micro_batches)
        first = rank - rank % of
        longest = max(
            len(batch_assignment.owned(r, world, micro_batches)) for r in range(first, first + of)
        )
        again = mine[-1] if mine else rank % micro_batches
        return [Turn(number) for number in mine] + [Turn(again, counts=False)] * (
            longest - len(mine)
        )

    # --- a step -----------------------------------------------------------------------------------

    def start(self, group: Group | None) -> None:
        # of a step that broke it may still be written
        self.broken, self._totals = False, torch.zeros_like(self._totals)
        for p in self._session.model.parameters():
            p.grad = None
        step = self._session.rest()["step"]
        self._spares.settle(step)
        if self._spares.due(step, self._group):
            self._quietly(
                lambda: self._spares.take(self._group, self._read(), self._session.rest())
            )

    def before(self, turn: Turn, *, last: bool) -> None:
        """Every pass gathers and reduces alike."""

    def check_gradients(self, *, first: bool) -> None:
        if not first and all(p.grad is None for p in self._parameters()):
            script_checks.raise_mistakes([script_checks.GRADIENTS_CLEARED])

    def after(self, turn: Turn) -> None:
        """Its gradients have been reduced."""

    def _quietly(self, call: Callable[[], Any]) -> None:
        if not self.broken:
            try:
                call()
            except RuntimeError:
                # a peer is gone; raising inside a pass would end the user's script
                self.broken = True

    def _all_gather(self, output: torch.Tensor, given: torch.Tensor) -> None:
        self._quietly(lambda: self._group.all_gather_shards(output, given))

    def _reduce_scatter(self, output: torch.Tensor, given: torch.Tensor) -> None:
        self._quietly(lambda: self._group.reduce_scatter_shards(output, given))

    def reduce(self, loss: torch.Tensor, max_norm: float | None) -> bool:
        self._max_norm = max_norm
        for p in self._parameters():
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        self._quietly(self._reduce_copies)
        self._totals[0] = loss
        self._totals[1] = 0.0
        # every copy of a part has the same gradients
        if max_norm is not None:
            copies = self._group.world // self._group.shard_group_size
            self._totals[1] = (
                sum(float(g.double().square().sum()) for g in self._gradients()) / copies
            )
        self._quietly(lambda: self._group.all_reduce(self._totals).wait())
        return not self.broken

    def _reduce_copies(self) -> None:
        if self._group.world == self._group.shard_group_size:
            return
        for dtype in sorted({g.dtype for g in self._gradients()}, key=str):
            gradients = [g for g in self._gradients() if g.dtype == dtype]
            flat = torch.cat([g.reshape(-1) for g in gradients])
            self._group.all_reduce_replicas(flat)
            for g, summed in zip(
                gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True
            ):
                g.copy_(summed.view_as(g))

    def give_gradients(self) -> tuple[float, float | None]:
        loss = float(self._totals[0])
        if self._max_norm is None:
            return loss, None
        norm = float(self._totals[1].sqrt())
        if norm > self._max_norm:
            for g in self._gradients():
                # as torch.nn.utils.clip_grad_norm_ has it
                g.mul_(self._max_norm / (norm + 1e-6))
        return loss, norm

    def _parameters(self) -> list[Any]:
        return [p for p in self._session.model.parameters() if p.requires_grad]

    def _gradients(self) -> list[torch.Tensor]:
        return [p.grad.to_local() for p in self._parameters()]

    # --- between steps ----------------------------------------------------------------------------

    def hand_over(self, group: Group, places: tuple[int, ...], world: int) -> None:
        parts = {rank: _part(group, rank) for rank in range(group.world)}
        needed = reshard_plan.plan_handover(parts, places, self.shards(world))
        if not needed:
            return
        held = self._read()
        table = held.table
        mine = needed.get(group.rank, [])
        moves = reshard_plan.plan_moves(
            table.counts, {rank: [part] for rank, part in parts.items()}, needed, table.row_bytes
        )
        # the old group holds everything
        assert moves is not None
        staged = {part: table.empty(part, self._device) for part in mine}
        carry(group, moves, table.counts, {held.part: held.tensors}, staged)
        self._staged = staged
        # nobody leaves before all have what they need
        group.all_reduce(torch.zeros(1)).wait()

    def enter(self, group: Group | None, recovery: RecoveryPlan) -> None:
        group = group or Group(0, 0, 1, 1).connect_alone()
        if recovery.cold_start:
            self._begin(group, must_load=False)
        elif not self._regroup(group, {*recovery.holders, *recovery.committers}):
            self._begin(group, must_load=True)
        self._group = group
        self._staged = {}
        self._last = None

    def _begin(self, group: Group, *, must_load: bool) -> None:
        """From the newest save, else from what rank 0's script has made; every rank holds the whole
        model for a moment."""
        model = self._session.model
        optimizer = self._session.optimizer
        if fsdp2_internals.wrapped(model):
            # what it was made with is gone
            must_load = True
            fsdp2_internals.unwrap(model)
            fsdp2_internals.allocate(model, self._device)
            optimizer.state.clear()
            sharded_state.point(model, optimizer, self._names)
        loaded = self._session.load(group)
        if group.rank:
            self._session.receive(group, 0)
        else:
            if not loaded and must_load:
                raise LookupError(
                    "a part of the state was lost, with no spare or save of it to go back to: "
                    "set "
                    "peer_copy_every or save_every"
                )
            for to in range(1, group.world):
                state_transfer.send(group, self._session.state(), to)
        whole = sharded_state.read(model, optimizer, Shard(0, 1))
        part = _part(group)
        mine = [
            tensor[slice(*part.rows(n))].clone()
            for tensor, n in zip(whole.tensors, whole.table.counts, strict=True)
        ]
        self._rewrap(group, Held(part, whole.table, mine, whole.rest), self._session.rest())

    def _regroup(self, group: Group, level: set[int]) -> bool:
        """Whether every rank has its part of the newest step that is still whole: live, or in
        spares."""
        held = self._last or (self._read() if group.rank in level else None)
        # until this has succeeded the model's own rows are not to be trusted
        self._last = held
        kept, rest = (
            ({held.part: held.tensors} | self._staged, self._session.rest())
            if held and group.rank in level
            else ({}, {})
        )
        said = group.all_gather_object([list(kept), self._spares.said()])
        counts = [p.shape[0] for p in self._session.model.parameters()]
        having = {
            rank: [Shard(*part) for part in parts] for rank, (parts, _) in enumerate(said) if parts
        }
        if not reshard_plan.is_complete(counts, having):
            found = newest_whole(counts, [spares for _, spares in said])
            if not found:
                return False
            step, having = found
            log.warning(
                "a part of the state was lost: back to the newest spares", extra={"step": step}
            )
            spare = self._spares.at(step)
            held, kept, rest = (spare.held, spare.parts, spare.rest) if spare else (None, {}, {})
        if group.rank not in having or not held:
            told = state_transfer.receive(group, min(having))
            held = Held(_part(group), Table(*told["table"]), [], told["split"])
            rest = told["rest"]
        elif group.rank == min(having):
            for to in set(range(group.world)) - having.keys():
                state_transfer.send(
                    group, {"table": held.table.said(), "split": held.rest, "rest": rest}, to
                )
        self._fill(group, having, held, kept, rest)
        return True

    def _fill(
        self,
        group: Group,
        having: dict[int, list[Shard]],
        held: Held,
        kept: dict[Shard, list[torch.Tensor]],
        rest: dict[str, Any],
    ) -> None:
        """The model is wrapped for this group, with its part of the state from those `having`
        parts. What was `kept` is as it was."""
        part = _part(group)
        table = held.table
        needed = {
            rank: [_part(group, rank)]
            for rank in range(group.world)
            if _part(group, rank) not in having.get(rank, ())
        }
        moves = reshard_plan.plan_moves(table.counts, having, needed, table.row_bytes)
        # it was whole
        assert moves is not None
        mine = (
            [tensor.to(self._device) for tensor in kept[part]]
            if part in kept
            else table.empty(part, self._device)
        )
        carry(group, moves, table.counts, kept, {part: mine})
        self._rewrap(group, Held(part, table, mine, held.rest), rest)

    def _rewrap(self, group: Group, held: Held, rest: dict[str, Any]) -> None:
        """The model is wrapped for `group` and has this state."""
        model = self._session.model
        if fsdp2_internals.wrapped(model):
            fsdp2_internals.unwrap(model)
        self._wrap(model, fsdp2_internals.make_mesh(group, self._device))
        fsdp2_internals.allocate(model, self._device, held.parameters())
        fsdp2_internals.set_collectives(model, self._all_gather, self._reduce_scatter)
        if bare := [name for name, p in model.named_parameters() if not isinstance(p, DTensor)]:
            raise ValueError(
                f"wrap leaves {bare[0]} and {len(bare) - 1} more unsharded: let it end with "
                f"fully_shard(model, mesh=mesh)"
            )
        sharded_state.write(held, model, self._session.optimizer, self._names)
        self._session.set_rest(rest)
        self._spares.clear()

    def _read(self) -> Held:
        return sharded_state.read(self._session.model, self._session.optimizer, _part(self._group))


def _part(group: Group, rank: int | None = None) -> Shard:
    return Shard((group.rank if rank is None else rank) % group.shard_group_size, group.shard_group_size)
