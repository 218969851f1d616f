"""Which piece of the state each rank writes: one replica's worth over all ranks, every byte by
exactly one of them. Pure.

Names are those of torch.distributed.checkpoint's flattened state dict: the keys on the way, joined
by dots.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.state.state_tree import named_tensors

# bytes: below it the first rank writes the whole tensor. Buffers that differ by rank (batch norm's)
# are such.
SMALL = 64 << 10


@dataclass(frozen=True, slots=True)
class Writer:
    """Where this rank stands among the writers. `name`: of their generation; `is_aborted`: whether one
    of them is known to be lost."""

    rank: int = 0
    world: int = 1
    shards: int = 0
    name: str = "alone"
    is_aborted: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Piece:
    """`tensor`: the live rows of the whole of `shape` that begin at `offsets`; of a tensor without
    dimensions, all of it."""

    name: str
    tensor: torch.Tensor
    offsets: tuple[int, ...]
    shape: tuple[int, ...]


def owned(state: Mapping[str, Any], rank: int, world: int, shards: int = 0) -> list[Piece]:
    """What `rank` of `world` writes. `shards`: so many neighbouring ranks hold a sharded tensor
    together; others are equal on all ranks.

    What is neither the model's nor the optimizer's is the first rank's. By name, so that all ranks
    count alike.
    """
    copies: list[tuple[str, torch.Tensor, int, tuple[int, ...]]] = []
    parts: list[tuple[str, torch.Tensor, int, tuple[int, ...]]] = []
    mine: list[Piece] = []
    for name, tensor in sorted(named_tensors(state), key=lambda found: found[0]):
        shape = tuple(tensor.shape)
        # a DTensor, whose class takes long to import
        if hasattr(tensor, "to_local"):
            parts.append(
                (name, tensor.to_local(), Shard(rank % shards, shards).rows(shape[0])[0], shape)
            )
        elif tensor.ndim and tensor.nbytes >= SMALL and name.startswith(("model.", "optimizer.")):
            copies.append((name, tensor, 0, shape))
        elif rank == 0:
            mine.append(Piece(name, tensor, (0,) * len(shape), shape))
    for tensors, at, of in (
        (copies, rank, world),
        (parts, rank // max(shards, 1), world // max(shards, 1)),
    ):
        rows = share(
            [(t.shape[0], math.prod(t.shape[1:]) * t.element_size()) for _, t, _, _ in tensors],
            at,
            of,
        )
        for (name, tensor, begin, shape), (first, last) in zip(tensors, rows, strict=True):
            if first < last:
                mine.append(
                    Piece(
                        name, tensor[first:last], (begin + first, *(0,) * (len(shape) - 1)), shape
                    )
                )
    return mine


def share(tensors: Sequence[tuple[int, int]], at: int, of: int) -> list[tuple[int, int]]:
    """Rows [first, last) of each tensor (rows, bytes a row) that writer `at` of `of` writes: equal
    bytes each, but for a row."""
    total = sum(rows * size for rows, size in tensors)
    before = 0
    found = []
    for rows, size in tensors:
        cuts = [
            min(max(-((before - total * n // of) // max(size, 1)), 0), rows) for n in (at, at + 1)
        ]
        found.append((cuts[0], rows if at + 1 == of else cuts[1]))
        before += rows * size
    return found
