"""Of a checkpoint this rank's rows: each goes into the live tensor that it belongs to."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from elastic_runtime.state.destination import row_count
from elastic_runtime.state.optimizers import Optimizers
from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.state.state_tree import named_tensors
from elastic_runtime.strategies.fsdp2_internals import sharded_like


class OwnRows:
    """A `Destination` for a model that is wrapped.

    Of parameters, and of optimizer state of the same shape, it takes the rows of `shard`; of the
    rest everything.
    """

    def __init__(self, model: nn.Module, optimizers: Optimizers, shard: Shard) -> None:
        self._shard = shard
        # By their names in a checkpoint. The model may have hooks that change its own.
        self._live: dict[str, Any] = dict(named_tensors({"model": model.state_dict()}))
        self._parameters: dict[str, Any] = {
            f"optimizer.{name}": p for name, p in optimizers.by_state_name.items()
        }
        # The sharded tensor that a name is of.
        self._sharded: dict[str, DTensor] = {}

    def rows(self, name: str, shape: Sequence[int]) -> tuple[int, int]:
        like = self._live.get(name, self._parameters.get(name.rpartition(".")[0]))
        if isinstance(like, DTensor) and tuple(like.shape) == tuple(shape):
            self._sharded[name] = like
            return self._shard.rows(shape[0])
        return 0, row_count(shape)

    def live(self, name: str) -> torch.Tensor | None:
        tensor = self._live.get(name)
        return tensor.to_local() if isinstance(tensor, DTensor) else tensor

    def place(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        """A tensor that is sharded as the live one; the live one itself if there is one."""
        if name not in self._sharded:
            return rows
        like = self._sharded[name]
        if name not in self._live:
            return sharded_like(like, rows.to(like.device))
        local = like.to_local()
        if local.data_ptr() != rows.data_ptr():
            local.copy_(rows)
        return like
