"""The rows of a sharded state that one rank holds: read, moved between ranks, written back."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from elastic_runtime.distributed.group import Group
from elastic_runtime.state.optimizers import Optimizers
from elastic_runtime.state.reshard_plan import Move, Shard
from elastic_runtime.strategies.fsdp2_internals import sharded_like

# The kind of a tensor that is the parameter itself. Any other kind is the optimizer's name for the
# tensor, such as exp_avg.
PARAMETER = ""
# Above the tags of state_transfer.
FIRST_TAG = 1 << 20


@dataclass(frozen=True)
class TensorTable:
    """The tensors that are split by rows: parameters, and optimizer state of the same shape."""

    # (name of the parameter, kind)
    keys: list[tuple[str, str]]
    # Of the whole tensor.
    shapes: list[tuple[int, ...]]
    dtypes: list[torch.dtype]

    @property
    def row_counts(self) -> list[int]:
        return [shape[0] for shape in self.shapes]

    @property
    def row_bytes(self) -> list[int]:
        return [
            math.prod(shape[1:]) * dtype.itemsize
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        ]

    def allocate(self, shard: Shard, device: str) -> list[torch.Tensor]:
        """Uninitialized memory for one shard of each tensor: (rows of the shard, other axes)."""
        tensors = []
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            first, last = shard.rows(shape[0])
            tensors.append(torch.empty((last - first, *shape[1:]), dtype=dtype, device=device))
        return tensors

    def as_plain_data(self) -> list[Any]:
        return [self.keys, self.shapes, self.dtypes]


@dataclass(frozen=True)
class ShardState:
    """One shard of the state of a model and its optimizers."""

    shard: Shard
    table: TensorTable
    # The rows of `shard`, in the order of `table`.
    tensors: list[torch.Tensor]
    # What is not split, equal on every rank: the optimizer's settings and small values, buffers.
    unsplit: dict[str, Any]

    def parameters(self) -> dict[str, torch.Tensor]:
        """This rank's rows of each parameter, by name."""
        return {
            name: tensor
            for (name, kind), tensor in zip(self.table.keys, self.tensors, strict=True)
            if kind == PARAMETER
        }


def read(model: nn.Module, optimizers: Optimizers, shard: Shard) -> ShardState:
    """The live tensors, not copied. A model that is not wrapped has one shard of one."""
    owners = optimizers.owners
    keys: list[tuple[str, str]] = []
    tensors: list[torch.Tensor] = []
    small: list[Any] = []
    for name, p in model.named_parameters():
        keys.append((name, PARAMETER))
        tensors.append(p)
        states = owners[p].state if p in owners else {}
        for kind, value in states.get(p, {}).items():
            is_tensor = isinstance(value, torch.Tensor)
            if is_tensor and value.shape == p.shape:
                keys.append((name, kind))
                tensors.append(value)
            else:
                # Some optimizers keep it on the parameter's device, some on the CPU.
                small.append([name, kind, value, value.device.type if is_tensor else ""])
    table = TensorTable(keys, [tuple(t.shape) for t in tensors], [t.dtype for t in tensors])
    groups = [_options(group) for group in optimizers.param_groups]
    unsplit = {"groups": groups, "small": small, "buffers": dict(model.named_buffers())}
    return ShardState(shard, table, [_local(t).detach() for t in tensors], unsplit)


def _options(group: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a parameter group, without its parameters."""
    return {key: value for key, value in group.items() if key != "params"}


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def write(state: ShardState, model: nn.Module, optimizers: Optimizers) -> None:
    """Let `state` be the state of the wrapped model and its optimizers.

    Its tensors are used as they are. So is a parameter that already has the same memory; others are
    copied.
    """
    parameters: dict[str, Any] = dict(model.named_parameters())
    owners = optimizers.owners
    for (name, kind), tensor in zip(state.table.keys, state.tensors, strict=True):
        p = parameters[name]
        if kind != PARAMETER:
            owners[p].state[p][kind] = sharded_like(p, tensor)
        elif (local := p.to_local().detach()).data_ptr() != tensor.data_ptr():
            local.copy_(tensor)
    for name, kind, value, device in state.unsplit["small"]:
        p = parameters[name]
        owners[p].state[p][kind] = value.to(device, copy=True) if device else value
    for group, settings in zip(optimizers.param_groups, state.unsplit["groups"], strict=True):
        group.update(settings)
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(state.unsplit["buffers"][name])


def shard_loaded(optimizers: Optimizers, shard: Shard) -> None:
    """Afterwards optimizers have only the rows of `shard` of what has the shape of a parameter.

    One with a state_dict of its own has loaded it whole.
    """
    for p, optimizer in optimizers.owners.items():
        state = optimizer.state.get(p, {})
        for kind, value in state.items():
            is_plain = isinstance(value, torch.Tensor) and not isinstance(value, DTensor)
            if is_plain and value.shape == p.shape:
                own = value[slice(*shard.rows(value.shape[0]))]
                state[kind] = sharded_like(p, own.clone())  # type: ignore[arg-type]


def set_optimizer_parameters(
    model: nn.Module, optimizers: Optimizers, group_names: Sequence[Sequence[str]]
) -> None:
    """Let the optimizers' groups hold the model's present parameters."""
    parameters = dict(model.named_parameters())
    for group, names in zip(optimizers.param_groups, group_names, strict=True):
        group["params"] = [parameters[name] for name in names]


def move_rows(
    group: Group,
    moves: Sequence[Move],
    row_counts: Sequence[int],
    sources: Mapping[Shard, Sequence[torch.Tensor]],
    targets: Mapping[Shard, Sequence[torch.Tensor]],
) -> int:
    """Do this rank's part of `moves`, from `sources` to `targets`. Returns the bytes received.

    Rows on a GPU go through the host's memory. Raises PeerLost if a peer is lost.
    """
    tags: dict[tuple[int, int], int] = {}
    transfers: list[Any] = []
    # (rows on the GPU, the same rows on the host), copied when all have arrived
    staged: list[tuple[torch.Tensor, torch.Tensor]] = []
    bytes_received = 0
    for move in moves:
        pair = (move.source, move.target)
        tags[pair] = tags.get(pair, FIRST_TAG) + 1
        count = row_counts[move.tensor]
        if move.source == group.rank:
            source = _rows(sources[move.source_shard][move.tensor], move.source_shard, count, move)
        if move.target == group.rank:
            target = _rows(targets[move.target_shard][move.tensor], move.target_shard, count, move)
        if move.source == group.rank == move.target:
            target.copy_(source)
        elif move.source == group.rank:
            transfers.append(group.isend(source.cpu(), move.target, tags[pair]))
        elif move.target == group.rank:
            buffer = torch.empty_like(target, device="cpu") if target.is_cuda else target
            transfers.append(group.irecv(buffer, move.source, tags[pair]))
            if target.is_cuda:
                staged.append((target, buffer))
            bytes_received += target.nbytes
    group.wait_all(transfers)
    for target, buffer in staged:
        target.copy_(buffer)
    return bytes_received


def _rows(tensor: torch.Tensor, shard: Shard, count: int, move: Move) -> torch.Tensor:
    """The rows of a move in the tensor that holds this shard of it."""
    first = shard.rows(count)[0]
    return tensor[move.first - first : move.last - first]
