"""Gives every rank of a new group its shard: from live ranks, peer copies or a checkpoint."""

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from elastic_runtime.distributed import state_transfer
from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.recovery import RecoveryPlan
from elastic_runtime.state import reshard_plan
from elastic_runtime.state.destination import Saved
from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.strategies import sharded_state, whole_state
from elastic_runtime.strategies.base import StateAccess
from elastic_runtime.strategies.fsdp2_internals import Collective
from elastic_runtime.strategies.peer_copies import PeerCopies
from elastic_runtime.strategies.shard_coverage import Report, Source, choose_source
from elastic_runtime.strategies.sharded_model import ShardedModel, shard_of
from elastic_runtime.strategies.sharded_state import ShardState, TensorTable, move_rows

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Holding:
    """What this rank has of the state that the job continues from."""

    state: ShardState | None = None
    # More than its own: also those that leaving ranks handed over, or a neighbour's.
    shards: dict[Shard, list[torch.Tensor]] = field(default_factory=dict)
    extra_state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Common:
    """What every rank of a group has alike."""

    table: TensorTable
    # See ShardState.unsplit.
    unsplit: dict[str, Any]
    extra_state: dict[str, Any]


class Resharding:
    def __init__(self, state: StateAccess, model: ShardedModel, peer_copies: PeerCopies) -> None:
        self._state = state
        self._model = model
        self._peer_copies = peer_copies
        # The group whose shard the model holds.
        self._group: Group | None = None
        # Shards that leaving ranks handed over to this one.
        self._handed_over: dict[Shard, list[torch.Tensor]] = {}
        # What this rank had when it began to enter a group. Until it has entered one, the tensors
        # in the model may be partly overwritten.
        self._before_entering: ShardState | None = None

    def hand_over(self, group: Group, next_ranks: tuple[int, ...], next_group_size: int) -> None:
        """See `Strategy.hand_over`. `next_group_size`: ranks that will share one copy."""
        shards = {rank: shard_of(group, rank) for rank in range(group.world)}
        needed = reshard_plan.plan_handover(shards, next_ranks, next_group_size)
        if not needed:
            return
        own = self._read()
        moves = reshard_plan.plan_moves(
            own.table.row_counts,
            {rank: [shard] for rank, shard in shards.items()},
            needed,
            own.table.row_bytes,
        )
        assert moves is not None, "the old group has every row"
        targets = {
            shard: self._model.allocate(own.table, shard) for shard in needed.get(group.rank, [])
        }
        move_rows(group, moves, own.table.row_counts, {own.shard: own.tensors}, targets)
        self._handed_over = targets
        # No rank leaves before every rank has what it needs.
        group.all_reduce(torch.zeros(1)).wait()

    def enter(
        self,
        group: Group,
        recovery: RecoveryPlan,
        all_gather: Collective,
        reduce_scatter: Collective,
    ) -> None:
        """See `Strategy.enter`. The model is wrapped for `group` and uses these collectives."""
        up_to_date = group.rank in {*recovery.holders, *recovery.committers}
        state = None if recovery.cold_start else self._reshard(group, up_to_date=up_to_date)
        wrap = functools.partial(self._model.wrap_for, group, all_gather, reduce_scatter)
        if state is None:
            # A checkpoint may need its memory.
            self._before_entering = None
            state = self._start_over(group, wrap, must_load=not recovery.cold_start)
        if state is not None:
            own, extra_state = state
            wrap(own.parameters())
            self._model.write(own)
            self._state.set_extra_state(extra_state)
        self._peer_copies.clear()
        self._group = group
        self._handed_over = {}
        self._before_entering = None

    # --- from the newest checkpoint ---------------------------------------------------------------

    def _start_over(
        self, group: Group, wrap: Callable[[], None], *, must_load: bool
    ) -> tuple[ShardState, dict[str, Any]] | None:
        """This rank's shard of the newest checkpoint, else of what the script has built.

        None if it is loaded already: from a shared checkpoint every rank loads its own rows. Raises
        LookupError if a checkpoint must be loaded and there is none.
        """
        saved = self._state.find_saved(group)
        # The parameters that the script had built do not exist any more once they are wrapped.
        is_lost = self._model.is_wrapped and not self._model.is_from_meta
        must_load = must_load or is_lost or self._state.step > 0
        if must_load and saved == Saved.NOWHERE:
            raise LookupError(
                "a shard of the state was lost, and no peer copy or checkpoint has it: set "
                "peer_copy_every or save_every"
            )
        if self._model.is_from_meta:
            if saved == Saved.NOWHERE:
                return self._model.first_shard(group, self._state.seed), self._state.extra_state()
            self._model.draw_buffers(group, self._state.seed)
        if saved == Saved.NOWHERE:
            return self._shard_what_was_built(group)
        if saved == Saved.COLLECTED:
            return self._receive_collected(group)
        wrap()
        own_shard = shard_of(group, group.rank)
        self._state.load_rows(group, lambda: self._model.own_rows(own_shard))
        sharded_state.shard_loaded(self._state.optimizers, own_shard)
        return None

    def _shard_what_was_built(self, group: Group) -> tuple[ShardState, dict[str, Any]]:
        """For a moment every rank holds the whole model."""
        # Raises LookupError if an earlier start was interrupted.
        self._state.load_newest(group)
        whole_state.spread_from_first(group, self._state, is_loaded=False)
        whole = self._model.read(Shard(0, 1))
        shard = shard_of(group, group.rank)
        tensors = [
            tensor[slice(*shard.rows(count))].clone()
            for tensor, count in zip(whole.tensors, whole.table.row_counts, strict=True)
        ]
        return ShardState(shard, whole.table, tensors, whole.unsplit), self._state.extra_state()

    def _receive_collected(self, group: Group) -> tuple[ShardState, dict[str, Any]]:
        """For a moment rank 0 holds the whole state, which only it can read."""
        if group.rank == 0 and (self._model.is_wrapped or self._model.is_from_meta):
            self._model.unwrap_empty()
        self._state.load_newest(group)
        own = Holding()
        if group.rank == 0:
            whole = self._model.read(Shard(0, 1))
            own = Holding(whole, {whole.shard: whole.tensors}, self._state.extra_state())
        return self._receive_shard(group, Source({0: [Shard(0, 1)]}), own)

    # --- from live ranks or peer copies -----------------------------------------------------------

    def _reshard(
        self, group: Group, *, up_to_date: bool
    ) -> tuple[ShardState, dict[str, Any]] | None:
        """This rank's shard of the newest state that the ranks still have; None if no
        state is complete.

        `up_to_date`: this rank has the newest step.
        """
        own = self._live_holding(up_to_date=up_to_date)
        source = self._choose_source(group, own)
        if source is None:
            return None
        if source.copied_step is not None:
            log.warning(
                "a shard of the state was lost: continuing from the newest peer copies",
                extra={"step": source.copied_step},
            )
            own = self._copied_holding(source.copied_step)
        return self._receive_shard(group, source, own)

    def _receive_shard(
        self, group: Group, source: Source, own: Holding
    ) -> tuple[ShardState, dict[str, Any]]:
        """This rank's shard of what the ranks of `source` have."""
        common = self._share_common(group, source, own)
        tensors = self._collect_rows(group, source, own, common.table)
        shard = shard_of(group, group.rank)
        return ShardState(shard, common.table, tensors, common.unsplit), common.extra_state

    def _live_holding(self, *, up_to_date: bool) -> Holding:
        state = self._before_entering
        if state is None and up_to_date:
            state = self._read()
        self._before_entering = state
        if state is None or not up_to_date:
            return Holding(state)
        shards = {state.shard: state.tensors} | self._handed_over
        return Holding(state, shards, self._state.extra_state())

    def _copied_holding(self, step: int) -> Holding:
        copy = self._peer_copies.get(step)
        return Holding(copy.own, copy.shards, copy.extra_state) if copy else Holding()

    def _choose_source(self, group: Group, own: Holding) -> Source | None:
        """The same on every rank."""
        report = Report(list(own.shards), self._peer_copies.shards_by_step())
        reports = group.all_gather_object(report.as_plain_data())
        row_counts = self._model.row_counts
        return choose_source(row_counts, [Report.from_plain_data(data) for data in reports])

    def _share_common(self, group: Group, source: Source, own: Holding) -> Common:
        """Ranks that hold nothing receive it from the first rank that holds something."""
        if group.rank not in source.shards or own.state is None:
            received = state_transfer.receive(group, source.first_rank)
            table = TensorTable(*received["table"])
            return Common(table, received["unsplit"], received["extra_state"])
        common = Common(own.state.table, own.state.unsplit, own.extra_state)
        if group.rank == source.first_rank:
            message = {
                "table": common.table.as_plain_data(),
                "unsplit": common.unsplit,
                "extra_state": common.extra_state,
            }
            for receiver in set(range(group.world)) - source.shards.keys():
                state_transfer.send(group, message, receiver)
        return common

    def _collect_rows(
        self, group: Group, source: Source, own: Holding, table: TensorTable
    ) -> list[torch.Tensor]:
        """This rank's shard, from the ranks that hold it. What `own` holds is not changed."""
        shard = shard_of(group, group.rank)
        needed = {
            rank: [shard_of(group, rank)]
            for rank in range(group.world)
            if shard_of(group, rank) not in source.shards.get(rank, ())
        }
        moves = reshard_plan.plan_moves(table.row_counts, source.shards, needed, table.row_bytes)
        assert moves is not None, "a source has every row"
        if shard in own.shards:
            tensors = [tensor.to(self._model.device.type) for tensor in own.shards[shard]]
        else:
            tensors = self._model.allocate(table, shard)
        move_rows(group, moves, table.row_counts, own.shards, {shard: tensors})
        return tensors

    def _read(self) -> ShardState:
        assert self._group is not None, "only a rank that has entered a group has a shard"
        return self._model.read(shard_of(self._group, self._group.rank))
