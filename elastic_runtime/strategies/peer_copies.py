"""Copies of a sharded state in the host memory of two ranks: its own, and its neighbour's. For
parts that no other rank holds."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from elastic_runtime.distributed.group import Group
from elastic_runtime.state import reshard_plan
from elastic_runtime.state.reshard_plan import Move, Shard
from elastic_runtime.strategies.sharded_state import Held, carry


class Spare(NamedTuple):
    step: int
    # of this rank, copied
    held: Held
    # of the session's state
    rest: dict[str, Any]
    neighbour: Shard
    # the neighbour's rows
    theirs: list[torch.Tensor]

    @property
    def parts(self) -> dict[Shard, list[torch.Tensor]]:
        return {self.neighbour: self.theirs, self.held.part: self.held.tensors}


class Spares:
    """`every`: steps from one to the next; 0 for none. The one before is kept until a step has been
    committed since."""

    def __init__(self, every: int) -> None:
        self.every = every
        self._kept: list[Spare] = []
        self._group: Group | None = None

    def due(self, step: int, group: Group) -> bool:
        """Also at the first step in a new group, whose neighbours are others."""
        return (
            bool(self.every)
            and group.shard_group_size > 1
            and (step % self.every == 0 or self._group is not group)
        )

    def clear(self) -> None:
        self._kept = []
        self._group = None

    def take(self, group: Group, held: Held, rest: dict[str, Any]) -> None:
        """Every rank's part is with itself and the next in its copy. Raises RuntimeError if a peer
        is lost; then the one before counts."""
        copied = Held(
            held.part,
            held.table,
            [t.to("cpu", copy=True) for t in held.tensors],
            _copied(held.rest),
        )
        of = group.shard_group_size
        first = group.rank - group.rank % group.shard_group_size
        neighbour = Shard((held.part.index - 1) % of, of)
        theirs = held.table.empty(neighbour, "cpu")
        moves = [
            Move(
                tensor,
                first + at,
                Shard(at, of),
                first + (at + 1) % of,
                Shard(at, of),
                *Shard(at, of).rows(count),
            )
            for tensor, count in enumerate(held.table.counts)
            for at in range(of)
            if Shard(at, of).rows(count)[0] < Shard(at, of).rows(count)[1]
        ]
        carry(group, moves, held.table.counts, {held.part: copied.tensors}, {neighbour: theirs})
        self._kept = [
            *self._kept[-1:],
            Spare(rest["step"], copied, _copied(rest), neighbour, theirs),
        ]
        self._group = group

    def settle(self, step: int) -> None:
        """`step` is committed here, so every rank has taken what was taken at its start: older ones
        are not needed."""
        if self._kept and self._kept[-1].step < step:
            self._kept = self._kept[-1:]

    def said(self) -> list[Any]:
        """[step, part, part] of each kept, as plain data."""
        return [[spare.step, *spare.parts] for spare in self._kept]

    def at(self, step: int) -> Spare | None:
        return next((spare for spare in self._kept if spare.step == step), None)


def newest_whole(
    counts: Sequence[int], said: Sequence[Sequence[Any]]
) -> tuple[int, dict[int, list[Shard]]] | None:
    """The newest step of which every row is somewhere, and who holds what. `said`: by rank, as
    `Spares.said`."""
    for step in sorted({spare[0] for spares in said for spare in spares}, reverse=True):
        held = {
            rank: [Shard(*part) for part in spare[1:]]
            for rank, spares in enumerate(said)
            for spare in spares
            if spare[0] == step
        }
        if reshard_plan.is_complete(counts, held):
            return step, held
    return None


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return [_copied(part) for part in value] if isinstance(value, (list, tuple)) else value
