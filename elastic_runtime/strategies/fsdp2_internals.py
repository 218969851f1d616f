"""Everything that depends on the internals of torch's `fully_shard`.

torch has no way to take a model out of it. `check_torch` reports a missing private name when a job
starts, not at its first resize. The private names are those of torch 2.13 to 2.15.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from elastic_runtime.distributed.gloo import HashStore, drop_on_thread
from elastic_runtime.distributed.group import Group

BACKEND = "cede"
FORWARD_AND_BACKWARD_HOOKS = (
    "_pre_forward_hook_handle",
    "_post_forward_hook_handle",
    "_root_post_backward_hook_handle",
)
# The process group that becomes torch.distributed's default group.
_current: list[Any] = []
# (output, input)
Collective = Callable[[torch.Tensor, torch.Tensor], None]


def check_torch() -> None:
    """Raises RuntimeError if this torch does not have the names by which a model is unwrapped."""
    try:
        _private_names()
        if not hasattr(FSDPModule, "set_custom_all_gather") or not callable(
            getattr(fully_shard, "state", None)
        ):
            raise AttributeError("FSDPModule.set_custom_all_gather or fully_shard.state")
        # torch 2.11 has one group in each module's state.
        if not hasattr(_state_type()(), "_fsdp_param_groups"):
            raise AttributeError("FSDPState._fsdp_param_groups")
    except (ImportError, AttributeError) as error:
        raise RuntimeError(
            f"torch {torch.__version__} has no {error}: sharded training that changes size needs "
            "torch 2.13 to 2.15; use one of these, or train replicated"
        ) from error


def _private_names() -> tuple[str, str, Any]:
    from torch.distributed._composable.contract import REGISTRY_KEY, STATE_KEY
    from torch.distributed._composable_state import _module_state_mapping

    return STATE_KEY, REGISTRY_KEY, _module_state_mapping


def _state_type() -> Any:
    from torch.distributed.fsdp._fully_shard._fsdp_state import FSDPState

    return FSDPState


# --- the device mesh ------------------------------------------------------------------------------


def make_mesh(group: Group, device: str) -> DeviceMesh:
    """A mesh over the ranks that share one copy of the model.

    They become torch.distributed's default group. It is a gloo group even if the model is on a
    GPU: none of torch's own collectives runs in it, and torch would wait for an orderly end of an
    NCCL group.
    """
    if not dist.is_initialized() and not hasattr(dist.Backend, BACKEND.upper()):
        dist.Backend.register_backend(BACKEND, lambda *_: _current[0], devices=["cpu", "cuda"])
    drop_mesh()
    _current[:] = [group.shard]
    size = group.shard_group_size
    dist.init_process_group(BACKEND, store=HashStore(), rank=group.rank % size, world_size=size)
    return init_device_mesh(device, (size,))


def drop_mesh() -> None:
    """Afterwards torch.distributed has no default group."""
    dropped = _current.copy()
    _current.clear()
    if dist.is_initialized():
        dist.destroy_process_group()
    drop_on_thread(dropped)


# --- wrapping -------------------------------------------------------------------------------------


def wrapped_modules(model: nn.Module) -> list[FSDPModule]:
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def unwrap(model: nn.Module) -> None:
    """Afterwards the model is as before any `fully_shard`, its parameters on the meta device.

    Parameters that were shared between modules are still shared.
    """
    state_key, registry_key, states = _private_names()
    modules: list[Any] = list(wrapped_modules(model))
    for module in modules:
        state: Any = fully_shard.state(module)  # type: ignore[attr-defined]
        _remove_hooks(state)
        for key in (state_key, registry_key):
            module.__dict__.pop(key, None)
        states.pop(module, None)
        # fully_shard has put a subclass of FSDPModule and of this class in its place.
        module.__class__ = type(module).__mro__[2]
    drop_parameters(model.modules())


def _remove_hooks(state: Any) -> None:
    """The hooks of fully_shard. Those of parameters would keep the old shards in memory."""
    for name in FORWARD_AND_BACKWARD_HOOKS:
        if hasattr(state, name):
            getattr(state, name).remove()
    for params in state._fsdp_param_groups:
        hooks = [p._post_load_hook_handle for p in params.fsdp_params]
        hooks += params._module_to_pre_save_state_dict_hook_handle.values()
        hooks += params._module_to_pre_load_state_dict_hook_handle.values()
        for hook in hooks:
            hook.remove()


def end_forward(model: nn.Module) -> None:
    """Undo what forward passes leave for a backward pass that never comes.

    Gathered parameters are dropped, and the order in which the backward pass would gather them.
    """
    for module in wrapped_modules(model):
        module.reshard()
        for params in fully_shard.state(module)._fsdp_param_groups:  # type: ignore[attr-defined]
            # Before the first forward pass there is no order.
            if params._post_forward_indices:
                params.comm_ctx.post_forward_order.clear()
                params._post_forward_indices.clear()


def _on_meta_device(p: nn.Parameter) -> torch.Tensor:
    return torch.empty(p.shape, dtype=p.dtype, device="meta")


def drop_parameters(modules: Iterable[nn.Module]) -> None:
    """Afterwards the parameters of these modules are on the meta device."""
    replace_parameters(modules, _on_meta_device, lambda p: True)


def replace_parameters(
    modules: Iterable[nn.Module],
    replacement: Callable[[nn.Parameter], torch.Tensor],
    is_replaced: Callable[[nn.Parameter], bool],
) -> None:
    """Each parameter only once, also if several modules share it."""
    replaced: dict[int, nn.Parameter] = {}
    for module in modules:
        for name, p in list(module._parameters.items()):
            if p is None or not is_replaced(p):
                continue
            if id(p) not in replaced:
                replaced[id(p)] = nn.Parameter(replacement(p), requires_grad=p.requires_grad)
            module._parameters[name] = replaced[id(p)]


def replace_buffers(
    modules: Iterable[nn.Module],
    replacement: Callable[[torch.Tensor], torch.Tensor],
    is_replaced: Callable[[torch.Tensor], bool],
) -> None:
    for module in modules:
        for name, buffer in module._buffers.items():
            if buffer is not None and is_replaced(buffer):
                module._buffers[name] = replacement(buffer)


def allocate(
    model: nn.Module, device: str, local_tensors: Mapping[str, torch.Tensor] | None = None
) -> None:
    """Give memory to every parameter and buffer on the meta device.

    This rank's rows are `local_tensors` by name, else uninitialized; so are buffers. Parameters
    that were shared between modules are still shared.
    """
    names = {id(p): name for name, p in model.named_parameters()}

    def with_memory(p: nn.Parameter) -> torch.Tensor:
        local = (local_tensors or {}).get(names[id(p)])
        if local is None:
            local = torch.empty_like(p.to_local() if isinstance(p, DTensor) else p, device=device)
        return sharded_like(p, local) if isinstance(p, DTensor) else local

    replace_parameters(model.modules(), with_memory, lambda p: p.is_meta)
    replace_buffers(
        model.modules(), lambda b: torch.empty_like(b, device=device), lambda b: b.is_meta
    )


def sharded_like(p: DTensor, local: torch.Tensor) -> DTensor:
    """A tensor that is sharded as `p` is; this rank's rows are `local`."""
    return DTensor.from_local(
        local, p.device_mesh, p.placements, run_check=False, shape=p.shape, stride=p.stride()
    )


# --- collectives ----------------------------------------------------------------------------------


class _Replacement:
    """A collective in place of torch's own. It never raises inside the script's passes."""

    def __init__(self, collective: Collective) -> None:
        self._collective = collective

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: Any,
        op: Any = None,
        async_op: bool = False,
    ) -> None:
        self._collective(output_tensor, input_tensor)


def set_collectives(model: nn.Module, all_gather: Collective, reduce_scatter: Collective) -> None:
    """The model gathers parameters, and sums (never averages) gradients, by these collectives.

    Both are complete when they return; on a GPU, for what is queued afterwards.
    """
    for module in wrapped_modules(model):
        module.set_custom_all_gather(_Replacement(all_gather))  # type: ignore[arg-type]
        module.set_custom_reduce_scatter(_Replacement(reduce_scatter))  # type: ignore[arg-type]
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)
