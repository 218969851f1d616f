"""The rows of a sharded state that one rank holds: read from model and optimizer, carried from rank
to rank, written back."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from elastic_runtime.distributed.group import Group
from elastic_runtime.state.reshard_plan import Move, Shard
from elastic_runtime.strategies.fsdp2_internals import like

# the kind of a tensor that is the parameter itself; any other is the optimizer's name for it, as
# exp_avg
PARAMETER = ""
FIRST_TAG = 1 << 20


@dataclass(frozen=True)
class Table:
    """The tensors that are split by rows: parameters, and what the optimizer keeps of the same
    shape."""

    # parameter's name, kind
    keys: list[tuple[str, str]]
    # of the whole
    shapes: list[tuple[int, ...]]
    dtypes: list[torch.dtype]

    @property
    def counts(self) -> list[int]:
        return [shape[0] for shape in self.shapes]

    @property
    def row_bytes(self) -> list[int]:
        return [
            math.prod(shape[1:]) * dtype.itemsize
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        ]

    def empty(self, part: Shard, device: str) -> list[torch.Tensor]:
        """Room for one part of each, unfilled: (rows of the part, the other dimensions)."""
        shapes = [
            (part.rows(shape[0])[1] - part.rows(shape[0])[0], *shape[1:]) for shape in self.shapes
        ]
        return [
            torch.empty(shape, dtype=dtype, device=device)
            for shape, dtype in zip(shapes, self.dtypes, strict=True)
        ]

    def said(self) -> list[Any]:
        return [self.keys, self.shapes, self.dtypes]


@dataclass(frozen=True)
class Held:
    """`tensors`: the rows of `part`, in the table's order. `rest`: all that is not split, equal on
    every rank."""

    part: Shard
    table: Table
    tensors: list[torch.Tensor]
    rest: dict[str, Any]

    def parameters(self) -> dict[str, torch.Tensor]:
        """By name."""
        return {
            name: tensor
            for (name, kind), tensor in zip(self.table.keys, self.tensors, strict=True)
            if kind == PARAMETER
        }


def read(model: nn.Module, optimizer: torch.optim.Optimizer, part: Shard) -> Held:
    """The live tensors, none copied; of a model that is not wrapped, as the only part of one."""
    keys: list[tuple[str, str]] = []
    wholes: list[torch.Tensor] = []
    small: list[Any] = []
    for name, p in model.named_parameters():
        keys.append((name, PARAMETER))
        wholes.append(p)
        for kind, value in optimizer.state.get(p, {}).items():
            if isinstance(value, torch.Tensor) and value.shape == p.shape:
                keys.append((name, kind))
                wholes.append(value)
            else:
                # the optimizer may want it beside the parameter, or on the CPU
                small.append(
                    [
                        name,
                        kind,
                        value,
                        value.device.type if isinstance(value, torch.Tensor) else "",
                    ]
                )
    table = Table(keys, [tuple(t.shape) for t in wholes], [t.dtype for t in wholes])
    groups = [
        {key: value for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]
    rest = {"groups": groups, "small": small, "buffers": dict(model.named_buffers())}
    return Held(part, table, [_local(t).detach() for t in wholes], rest)


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def write(
    held: Held, model: nn.Module, optimizer: torch.optim.Optimizer, names: Sequence[Sequence[str]]
) -> None:
    """`held` is the state of the wrapped model and its optimizer. `names`: of the parameters of
    each of the optimizer's groups.

    What the optimizer keeps is taken as it is; so is a parameter that has been given the same
    memory, others are copied.
    """
    parameters: dict[str, Any] = dict(model.named_parameters())
    optimizer.state.clear()
    for (name, kind), tensor in zip(held.table.keys, held.tensors, strict=True):
        p = parameters[name]
        if kind == PARAMETER:
            if (local := p.to_local().detach()).data_ptr() != tensor.data_ptr():
                local.copy_(tensor)
        else:
            optimizer.state[p][kind] = like(p, tensor)
    for name, kind, value, device in held.rest["small"]:
        optimizer.state[parameters[name]][kind] = value.to(device, copy=True) if device else value
    point(model, optimizer, names)
    for group, of in zip(optimizer.param_groups, held.rest["groups"], strict=True):
        group.update(of)
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(held.rest["buffers"][name])


def point(
    model: nn.Module, optimizer: torch.optim.Optimizer, names: Sequence[Sequence[str]]
) -> None:
    """The optimizer's groups hold the model's present parameters."""
    parameters = dict(model.named_parameters())
    for group, members in zip(optimizer.param_groups, names, strict=True):
        group["params"] = [parameters[name] for name in members]


def carry(
    group: Group,
    moves: Sequence[Move],
    counts: Sequence[int],
    held: Mapping[Shard, Sequence[torch.Tensor]],
    made: Mapping[Shard, Sequence[torch.Tensor]],
) -> int:
    """Do this rank's share of `moves`, from `held` to `made`; the bytes received. Raises
    RuntimeError if a peer is lost.

    By way of the host's memory: not yet from GPU to GPU.
    """
    tags: dict[tuple[int, int], int] = {}
    posted: list[Any] = []
    # where to, and where it is on the host
    arriving: list[tuple[torch.Tensor, torch.Tensor]] = []
    received = 0
    for move in moves:
        here = move.source == group.rank
        there = move.target == group.rank
        tag = tags[move.source, move.target] = tags.get((move.source, move.target), FIRST_TAG) + 1
        if here:
            given = _slice(held[move.source_shard][move.tensor], move.source_shard, counts[move.tensor], move)
        if there:
            place = _slice(made[move.target_shard][move.tensor], move.target_shard, counts[move.tensor], move)
        if here and there:
            place.copy_(given)
        elif here:
            posted.append(group.isend(given.cpu(), move.target, tag))
        elif there:
            landing = torch.empty_like(place, device="cpu") if place.is_cuda else place
            posted.append(group.irecv(landing, move.source, tag))
            arriving += [(place, landing)] if place.is_cuda else []
            received += place.nbytes
    group.wait_all(posted)
    for place, landing in arriving:
        place.copy_(landing)
    return received


def _slice(tensor: torch.Tensor, part: Shard, count: int, move: Move) -> torch.Tensor:
    first = part.rows(count)[0]
    return tensor[move.first - first : move.last - first]
