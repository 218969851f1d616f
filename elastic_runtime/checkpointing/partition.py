"""Decides which piece of the state each rank writes.

All ranks together write one copy of the state: every byte is written by exactly one of them.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.state.state_tree import named_tensors

# The first rank writes a smaller tensor whole. Buffers that differ by rank, such as batch norm's
# statistics, are so small.
SMALL_TENSOR_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Writer:
    """This rank among the ranks that save together."""

    rank: int = 0
    world: int = 1
    # As in `Group`.
    shard_group_size: int = 0
    # Of the ranks' generation; unique in the job.
    generation_name: str = "alone"
    # Whether one of the ranks is known to be lost.
    is_aborted: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a tensor that one rank writes; of a tensor without dimensions, all of it."""

    name: str
    # The live rows.
    tensor: torch.Tensor
    # Where they begin in the whole tensor.
    offsets: tuple[int, ...]
    # Of the whole tensor.
    shape: tuple[int, ...]


class _Rows(NamedTuple):
    """Rows of a large tensor that several ranks have and divide among them."""

    name: str
    tensor: torch.Tensor
    # The first of them in the whole tensor.
    begin: int
    # Of the whole tensor.
    shape: tuple[int, ...]


def rank_pieces(
    state: Mapping[str, Any], rank: int, world: int, shard_group_size: int = 0
) -> list[Piece]:
    """What `rank` of `world` writes.

    Small tensors, and those that are neither the model's nor the optimizer's, are the first rank's.
    The tensors are taken by name, so that all ranks divide them alike.
    """
    replicated: list[_Rows] = []
    sharded: list[_Rows] = []
    pieces: list[Piece] = []
    for name, tensor in sorted(named_tensors(state), key=lambda named: named[0]):
        shape = tuple(tensor.shape)
        # A DTensor: its class takes long to import.
        if hasattr(tensor, "to_local"):
            shard = Shard(rank % shard_group_size, shard_group_size)
            sharded.append(_Rows(name, tensor.to_local(), shard.rows(shape[0])[0], shape))
        elif _is_divided(name, tensor):
            replicated.append(_Rows(name, tensor, 0, shape))
        elif rank == 0:
            pieces.append(Piece(name, tensor, (0,) * len(shape), shape))
    pieces += _divide(replicated, rank, world)
    # The ranks that hold the same shard divide it among them.
    group_size = max(shard_group_size, 1)
    pieces += _divide(sharded, rank // group_size, world // group_size)
    return pieces


def _is_divided(name: str, tensor: torch.Tensor) -> bool:
    return (
        tensor.ndim > 0
        and tensor.nbytes >= SMALL_TENSOR_BYTES
        and name.startswith(("model.", "optimizer."))
    )


def _divide(tensors: Sequence[_Rows], writer: int, writers: int) -> Iterator[Piece]:
    """The pieces that one of `writers` ranks writes, all of which have these rows."""
    sizes = [
        (rows.tensor.shape[0], math.prod(rows.tensor.shape[1:]) * rows.tensor.element_size())
        for rows in tensors
    ]
    for rows, (first, last) in zip(tensors, split_rows(sizes, writer, writers), strict=True):
        if first < last:
            offsets = (rows.begin + first, *(0,) * (len(rows.shape) - 1))
            yield Piece(rows.name, rows.tensor[first:last], offsets, rows.shape)


def split_rows(
    tensors: Sequence[tuple[int, int]], writer: int, writers: int
) -> list[tuple[int, int]]:
    """Rows [first, last) of each tensor (rows, bytes a row) that one of `writers` ranks writes.

    All write the same number of bytes, give or take one row.
    """
    total = sum(rows * size for rows, size in tensors)
    begin = total * writer // writers
    end = total * (writer + 1) // writers
    bytes_before = 0
    bounds = []
    for rows, size in tensors:
        first = _first_row(begin - bytes_before, rows, size)
        last = _first_row(end - bytes_before, rows, size)
        # Also rows without bytes have a writer.
        bounds.append((first, rows if writer + 1 == writers else last))
        bytes_before += rows * size
    return bounds


def _first_row(offset: int, rows: int, size: int) -> int:
    """The first row of a tensor that begins at or behind this byte of it, in [0, rows]."""
    return min(max(-(-offset // max(size, 1)), 0), rows)
