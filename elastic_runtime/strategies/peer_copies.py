"""Copies of a sharded state in host memory: each rank keeps its own shard and its neighbour's.

A shard that no live rank holds any more is restored from them.
"""

from typing import Any, NamedTuple

import torch

from elastic_runtime.distributed.group import Group
from elastic_runtime.state.reshard_plan import Move, Shard
from elastic_runtime.strategies.sharded_state import ShardState, move_rows


class PeerCopy(NamedTuple):
    """What one rank keeps of one step."""

    step: int
    # This rank's own shard, copied.
    own: ShardState
    # The part of the training state that is neither the model's nor the optimizer's.
    extra_state: dict[str, Any]
    neighbour: Shard
    neighbour_tensors: list[torch.Tensor]

    @property
    def shards(self) -> dict[Shard, list[torch.Tensor]]:
        return {self.neighbour: self.neighbour_tensors, self.own.shard: self.own.tensors}


class PeerCopies:
    """`interval`: steps between two copies; 0 for none.

    A copy is taken at the start of a step. The one before is kept until that step is committed: a
    rank may be lost while the newer copy is taken.
    """

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self._copies: list[PeerCopy] = []
        self._group: Group | None = None

    def is_due(self, step: int, group: Group) -> bool:
        """Also in the first step of a group, because its ranks have other neighbours."""
        return (
            bool(self.interval)
            and group.shard_group_size > 1
            and (step % self.interval == 0 or self._group is not group)
        )

    def clear(self) -> None:
        self._copies = []
        self._group = None

    def take(self, group: Group, own: ShardState, extra_state: dict[str, Any]) -> None:
        """Copy every rank's shard, to itself and to the next rank of its shard group.

        Raises PeerLost if a peer is lost; then the copy before stays the newest one.
        """
        copied = ShardState(
            own.shard,
            own.table,
            [tensor.to("cpu", copy=True) for tensor in own.tensors],
            _deep_copy(own.unsplit),
        )
        neighbour = Shard((own.shard.number - 1) % own.shard.total, own.shard.total)
        neighbour_tensors = own.table.allocate(neighbour, "cpu")
        moves = _moves_to_neighbours(group, own.table.row_counts)
        sources = {own.shard: copied.tensors}
        move_rows(group, moves, own.table.row_counts, sources, {neighbour: neighbour_tensors})
        newest = PeerCopy(
            extra_state["step"], copied, _deep_copy(extra_state), neighbour, neighbour_tensors
        )
        self._copies = [*self._copies[-1:], newest]
        self._group = group

    def step_committed(self, step: int) -> None:
        """Drop the older copy if `step` is past the newest one: every rank has the newest then."""
        if self._copies and self._copies[-1].step < step:
            self._copies = self._copies[-1:]

    def shards_by_step(self) -> dict[int, list[Shard]]:
        return {copy.step: list(copy.shards) for copy in self._copies}

    def get(self, step: int) -> PeerCopy | None:
        return next((copy for copy in self._copies if copy.step == step), None)


def _moves_to_neighbours(group: Group, row_counts: list[int]) -> list[Move]:
    """All rows of all shards, each to the next rank of this rank's shard group."""
    size = group.shard_group_size
    first_rank = group.rank - group.rank % size
    moves = []
    for tensor, count in enumerate(row_counts):
        for number in range(size):
            shard = Shard(number, size)
            first, last = shard.rows(count)
            target = first_rank + (number + 1) % size
            if first < last:
                moves.append(Move(tensor, first_rank + number, shard, target, shard, first, last))
    return moves


def _deep_copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _deep_copy(item) for key, item in value.items()}
    return [_deep_copy(item) for item in value] if isinstance(value, (list, tuple)) else value
