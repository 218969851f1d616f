"""Gives a model that was built on the meta device its first values, one block at a time.

A block is what `wrap` shards as one. It is whole on a rank only while it is initialized. Every rank
draws the same numbers in the same order, so they are the same at every size of the job.
"""

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from elastic_runtime.data import random_state
from elastic_runtime.mistake import Mistake
from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.strategies import fsdp2_internals

# Buffers, each as its module and its name there.
Places = Sequence[tuple[nn.Module, str]]
# It begins behind the last row of every tensor.
NO_ROWS = Shard(1, 1)
# Called with each module, as by `model.apply`.
Initialize = Callable[[nn.Module], object]


def mistakes(model: nn.Module, initialize: Initialize | None) -> Iterator[str]:
    """If a model has tensors on the meta device that would get no values."""
    parameters = list(model.parameters())
    tensors = [*parameters, *model.buffers()]
    if not any(tensor.is_meta for tensor in tensors):
        return
    if not all(p.is_meta for p in parameters):
        yield (
            "only a part of the model is on the meta device: build all of it under "
            'torch.device("meta")'
        )
        return
    for name, module in model.named_modules():
        is_empty = any(tensor.is_meta for tensor in _own_tensors(module))
        if is_empty and not initialize and not _reset_of(module):
            yield (
                f"{name or 'the model'} ({type(module).__name__}) is on the meta device and has no "
                "reset_parameters: give it one, or use Sharded(wrap, initialize=function), which "
                "is called with each module, as by model.apply"
            )
            return


def _own_tensors(module: nn.Module) -> list[torch.Tensor]:
    """Those that have elements, without those of its submodules."""
    tensors = (*module.parameters(recurse=False), *module.buffers(recurse=False))
    return [tensor for tensor in tensors if tensor.numel()]


def _reset_of(module: nn.Module) -> Any:
    """What writes the values that its constructor would; None if there is nothing."""
    # MultiheadAttention has only the second one.
    return getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)


# torch gives no types to it.
class _NoLostWrites(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A write to a tensor on the meta device raises Mistake."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        for argument, value in zip(func._schema.arguments, args, strict=False):
            is_written = argument.alias_info and argument.alias_info.is_write
            if is_written and isinstance(value, torch.Tensor) and value.is_meta:
                raise Mistake(
                    f"a tensor of shape {tuple(value.shape)} is initialized while its block is on "
                    "the meta device: let what initializes a module write only to the same block, "
                    "which is a module that wrap gives to fully_shard"
                )
        return func(*args, **(kwargs or {}))


class FirstValues:
    """`blocks`: the modules that `wrap` shards. `initialize`: None for their reset_parameters."""

    def __init__(
        self,
        model: nn.Module,
        blocks: Iterable[Any],
        initialize: Initialize | None,
        device: torch.device,
    ) -> None:
        self._model = model
        # A parameter outside all blocks is a mistake, but not a buffer.
        self._blocks = {model, *blocks}
        self._initialize = initialize
        self._device = device
        # By id: a tensor that holds no NaN, and its version before anything has written to it.
        self._unwritten = dict[int, tuple[torch.Tensor, int]]()

    def draw(self, seed: int, shard: Shard) -> dict[str, torch.Tensor]:
        """The rows of `shard` of each parameter, by name.

        Afterwards buffers have values, and parameters are on the meta device. Raises Mistake for
        what has no value.
        """
        rows: dict[str, torch.Tensor] = {}
        with self._drawing(seed):
            self._visit(self._model, shard, rows)
        return rows

    def draw_buffers(self, seed: int) -> None:
        """Give the buffers that no checkpoint has the values that `draw` gives them.

        Users expect those of the first start, and that a checkpoint has what `state_dict` has.
        """
        saved = {id(tensor) for tensor in self._model.state_dict(keep_vars=True).values()}
        places = [
            (module, name)
            for module in self._model.modules()
            for name, buffer in module.named_buffers(recurse=False)
            if buffer.is_meta and id(buffer) not in saved
        ]
        first, second = (self._buffers_drawn(places, trial) for trial in range(2))
        if not all(map(torch.equal, first, second)):
            # At random: the values depend on all draws before, also on those of parameters.
            _drop_buffers(places)
            self.draw(seed, NO_ROWS)

    def _buffers_drawn(self, places: Places, seed: int) -> list[torch.Tensor]:
        """By place, after the modules that have them were initialized, and no others."""
        _drop_buffers(places)
        with self._drawing(seed):
            for module in dict.fromkeys(module for module, _ in places):
                self._allocate([module])
                self._call(module)
                self._check_values([module])
                fsdp2_internals.drop_parameters([module])
        return [module.get_buffer(name) for module, name in places]

    @contextmanager
    def _drawing(self, seed: int) -> Iterator[None]:
        no_lost_writes = _NoLostWrites()  # type: ignore[no-untyped-call]
        with random_state.preserved(), torch.no_grad(), self._device, no_lost_writes:
            random_state.seed(seed)
            yield

    def _visit(self, module: nn.Module, shard: Shard, rows: dict[str, torch.Tensor]) -> None:
        """In the order of `apply`: submodules first."""
        members = list(self._members(module)) if module in self._blocks else []
        self._allocate(members)
        for child in module.children():
            self._visit(child, shard, rows)
        self._call(module)
        self._check_values(members)
        own = {id(p) for member in members for p in member.parameters(recurse=False)}
        for name, p in self._model.named_parameters():
            if id(p) in own:
                rows[name] = p.detach()[slice(*shard.rows(p.shape[0]))].clone()
        fsdp2_internals.drop_parameters(members)

    def _members(self, block: nn.Module) -> Iterator[nn.Module]:
        """The modules of a block, without those of blocks inside it."""
        yield block
        for child in block.children():
            if child not in self._blocks:
                yield from self._members(child)

    def _allocate(self, modules: Iterable[nn.Module]) -> None:
        """What they have on the meta device is on the real one, and blank: without a value."""

        def blank(tensor: torch.Tensor) -> torch.Tensor:
            allocated = _allocate_like(tensor, self._device)
            if _holds_nan(tensor):
                return allocated.fill_(torch.nan)
            allocated.zero_()
            self._unwritten[id(allocated)] = allocated, allocated._version
            return allocated

        fsdp2_internals.replace_parameters(modules, blank, lambda p: p.is_meta)
        fsdp2_internals.replace_buffers(modules, blank, lambda buffer: buffer.is_meta)

    def _call(self, module: nn.Module) -> None:
        """As its constructor and then the script's `apply` would, which may leave it alone."""
        if self._initialize:
            self._initialize(module)
        reset = _reset_of(module)
        if reset and _own_tensors(module) and all(map(self._is_blank, _own_tensors(module))):
            reset()

    def _check_values(self, modules: Iterable[nn.Module]) -> None:
        for module in modules:
            if any(map(self._is_blank, _own_tensors(module))):
                raise Mistake(
                    f"a {type(module).__name__} of the model on the meta device got no values: "
                    "let the function in Sharded(wrap, initialize=function) give them, or give "
                    "the module a reset_parameters"
                )
            for tensor in _own_tensors(module):
                self._unwritten.pop(id(tensor), None)

    def _is_blank(self, tensor: torch.Tensor) -> bool:
        if _holds_nan(tensor):
            return bool(tensor.isnan().all())
        allocated, version = self._unwritten.get(id(tensor), (None, 0))
        return allocated is tensor and tensor._version == version


def _drop_buffers(places: Places) -> None:
    """Afterwards they are on the meta device."""
    for module, name in places:
        module._buffers[name] = torch.empty_like(module.get_buffer(name), device="meta")


def _allocate_like(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if device.type != "cpu" or not tensor.numel():
        return torch.empty_like(tensor, device=device)
    # malloc would keep what is freed: a process would have as much memory as for the whole model.
    memory = mmap.mmap(-1, tensor.numel() * tensor.element_size())
    return torch.frombuffer(memory, dtype=tensor.dtype).view(tensor.shape)


def _holds_nan(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
