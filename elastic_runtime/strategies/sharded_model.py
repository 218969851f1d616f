"""A model under FSDP2, and its optimizers: read, unwrapped, and wrapped again for another group."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from elastic_runtime import script_checks, session_checks
from elastic_runtime.distributed.group import Group
from elastic_runtime.mistake import Mistake
from elastic_runtime.state.optimizers import Optimizers
from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.strategies import fsdp2_internals, sharded_state
from elastic_runtime.strategies.fsdp2_internals import Collective
from elastic_runtime.strategies.meta_model import FirstValues, Initialize
from elastic_runtime.strategies.own_rows import OwnRows
from elastic_runtime.strategies.sharded_state import ShardState, TensorTable

Wrap = Callable[[Any, DeviceMesh], None]


class ShardedModel:
    """`wrap(model, mesh)` calls `fully_shard`. The model stays the same object at every resize."""

    def __init__(
        self,
        wrap: Wrap,
        initialize: Initialize | None,
        model: torch.nn.Module,
        optimizers: Optimizers,
        device: torch.device,
    ) -> None:
        fsdp2_internals.check_torch()
        self._wrap = wrap
        self._initialize = initialize
        self.model = model
        self._optimizers = optimizers
        name_of = {id(p): name for name, p in model.named_parameters()}
        # The parameters as `wrap` left them.
        self._sharded = list[Any]()
        self._group_names = list[list[str]]()
        for group in optimizers.param_groups:
            self._group_names.append([name_of[id(p)] for p in group["params"]])
        script_checks.raise_mistakes(session_checks.device_mistakes(model.parameters()))
        # The script has given it no values.
        self.is_from_meta = any(p.is_meta for p in model.parameters())
        self.device = device
        if self.device.type == "cuda":
            # fully_shard uses the current device.
            torch.cuda.set_device(self.device)

    @property
    def trained_parameters(self) -> list[Any]:
        return [p for p in self.model.parameters() if p.requires_grad]

    @property
    def gradients(self) -> list[torch.Tensor]:
        """This rank's rows of each."""
        return [p.grad.to_local() for p in self.trained_parameters]

    def copy_gradients(self) -> dict[Any, Any]:
        """By parameter. Also between a forward and a backward pass, when the modules have other
        tensors in the place of some parameters."""
        return {p: None if p.grad is None else p.grad.clone() for p in self._sharded}

    @property
    def row_counts(self) -> list[int]:
        """Of the whole parameters."""
        return [p.shape[0] for p in self.model.parameters()]

    @property
    def is_wrapped(self) -> bool:
        return bool(fsdp2_internals.wrapped_modules(self.model))

    def read(self, shard: Shard) -> ShardState:
        """The live tensors, not copied."""
        return sharded_state.read(self.model, self._optimizers, shard)

    def first_shard(self, group: Group, seed: int) -> ShardState:
        """This rank's rows of the values that a model from the meta device begins with."""
        shard = shard_of(group, group.rank)
        rows = self._first_values(group).draw(seed, shard)
        whole = self.read(Shard(0, 1))
        tensors = [rows[name] for name, _ in whole.table.keys]
        return ShardState(shard, whole.table, tensors, whole.unsplit)

    def draw_buffers(self, group: Group, seed: int) -> None:
        """Give those of a model from the meta device that no checkpoint has their first values."""
        self._first_values(group).draw_buffers(seed)

    def _first_values(self, group: Group) -> FirstValues:
        fsdp2_internals.unwrap(self.model)
        # Only to learn what its blocks are.
        self._call_wrap(group)
        blocks = fsdp2_internals.wrapped_modules(self.model)
        fsdp2_internals.unwrap(self.model)
        return FirstValues(self.model, blocks, self._initialize, self.device)

    def _call_wrap(self, group: Group) -> None:
        before = parameters_by_name(self.model)
        self._wrap(self.model, fsdp2_internals.make_mesh(group, self.device.type))
        script_checks.raise_mistakes(session_checks.compiled_mistakes(self.model))
        after = parameters_by_name(self.model)
        script_checks.raise_mistakes(wrap_mistakes(before, after))

    def unwrap_empty(self) -> None:
        """Afterwards the model is plain and whole, its parameters uninitialized."""
        fsdp2_internals.unwrap(self.model)
        fsdp2_internals.allocate(self.model, self.device.type)
        self._optimizers.clear_state()
        sharded_state.set_optimizer_parameters(self.model, self._optimizers, self._group_names)

    def end_forward(self) -> None:
        """After a forward pass without a backward pass: every rank holds its rows only."""
        fsdp2_internals.end_forward(self.model)

    def allocate(self, table: TensorTable, shard: Shard) -> list[torch.Tensor]:
        """Uninitialized memory for `shard`, on the model's device."""
        return table.allocate(shard, self.device.type)

    def wrap_for(
        self,
        group: Group,
        all_gather: Collective,
        reduce_scatter: Collective,
        rows: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        """Wrap the model for `group`; it uses these collectives, and the optimizers have no state.

        `rows`: this rank's of each parameter, by name; without them they are uninitialized.
        """
        # Also one that is not wrapped: whole parameters take memory that rows may need.
        fsdp2_internals.unwrap(self.model)
        self._call_wrap(group)
        fsdp2_internals.allocate(self.model, self.device.type, rows)
        fsdp2_internals.set_collectives(self.model, all_gather, reduce_scatter)
        unsharded = [name for name, p in self.model.named_parameters() if not is_sharded(p)]
        if unsharded:
            raise Mistake(
                f"wrap leaves {unsharded[0]} and {len(unsharded) - 1} more parameters unsharded: "
                "call fully_shard(model, mesh=mesh) at its end"
            )
        self._sharded = list(self.model.parameters())
        self._optimizers.clear_state()
        sharded_state.set_optimizer_parameters(self.model, self._optimizers, self._group_names)

    def write(self, state: ShardState) -> None:
        """The model is wrapped with the rows of this state, which becomes its own."""
        sharded_state.write(state, self.model, self._optimizers)

    def own_rows(self, shard: Shard) -> OwnRows:
        """Where a checkpoint is loaded to, once the model is wrapped."""
        return OwnRows(self.model, self._optimizers, shard)


def parameters_by_name(model: torch.nn.Module) -> dict[str, int]:
    """The `id` of each, also by the further names of one that modules share."""
    return {name: id(p) for name, p in model.named_parameters(remove_duplicate=False)}


def wrap_mistakes(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[str]:
    """`before`, `after`: `parameters_by_name` around a call of `wrap`."""
    if changed := before.keys() ^ after.keys():
        yield (
            f"wrap changed the names of parameters, such as {min(changed)}: do that before the "
            "session is made, such as with a checkpoint_wrapper, and let wrap only call fully_shard"
        )
        return
    first_names = dict[int, str]()
    for name, parameter in before.items():
        first = first_names.setdefault(parameter, name)
        if after[name] != after[first]:
            yield (
                f"{first} and {name} are one parameter, and wrap makes two of it: call fully_shard "
                "once for a list of both modules, or leave both to fully_shard(model, mesh=mesh)"
            )
            return


def is_sharded(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, DTensor)


def shard_of(group: Group, rank: int) -> Shard:
    return Shard(rank % group.shard_group_size, group.shard_group_size)
