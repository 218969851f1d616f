"""All that we know of the inside of torch's `fully_shard`: how a model comes out of it in place, to
be wrapped anew for another size.

Private names of torch 2.13 to 2.15; `require` says at the start of a job which one is missing, not
at its first resize.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from elastic_runtime.distributed.gloo import HashStore
from elastic_runtime.distributed.group import Group

BACKEND = "cede"
HANDLES = (
    "_pre_forward_hook_handle",
    "_post_forward_hook_handle",
    "_root_post_backward_hook_handle",
)
# the group that torch.distributed's default group is made of
_current: list[Any] = []
# (output, input)
Collective = Callable[[torch.Tensor, torch.Tensor], None]


def require() -> None:
    """Raises RuntimeError when this torch has not the names by which a model is unwrapped."""
    try:
        _names()
        if not hasattr(FSDPModule, "set_custom_all_gather") or not callable(
            getattr(fully_shard, "state", None)
        ):
            raise AttributeError("FSDPModule.set_custom_all_gather or fully_shard.state")
    except (ImportError, AttributeError) as error:
        raise RuntimeError(
            f"torch {torch.__version__} has no {error}: sharded training that changes size needs "
            f"torch 2.13 to 2.15; "
            "use one of these, or train replicated"
        ) from error


def _names() -> tuple[str, str, Any]:
    from torch.distributed._composable.contract import REGISTRY_KEY, STATE_KEY
    from torch.distributed._composable_state import _module_state_mapping

    return STATE_KEY, REGISTRY_KEY, _module_state_mapping


def make_mesh(group: Group, device: str) -> DeviceMesh:
    """A mesh over the ranks that share one copy of the model, which are torch.distributed's default
    group from now on.

    Over gloo also where the model is on a GPU: no collective of torch's own runs in it, and torch
    would wait for NCCL's to end well.
    """
    if not dist.is_initialized() and not hasattr(dist.Backend, BACKEND.upper()):
        dist.Backend.register_backend(BACKEND, lambda *_: _current[0], devices=["cpu", "cuda"])
    drop_mesh()
    _current[:] = [group.shard]
    dist.init_process_group(
        BACKEND, store=HashStore(), rank=group.rank % group.shard_group_size, world_size=group.shard_group_size
    )
    return init_device_mesh(device, (group.shard_group_size,))


def drop_mesh() -> None:
    """torch.distributed knows of no group."""
    if dist.is_initialized():
        dist.destroy_process_group()
    _current.clear()


def wrapped(model: nn.Module) -> list[FSDPModule]:
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def unwrap(model: nn.Module) -> None:
    """The model is as before `fully_shard`, its parameters without memory (on the meta device);
    those that were shared still are."""
    state_key, registry_key, states = _names()
    modules: list[Any] = list(wrapped(model))
    for module in modules:
        state: Any = fully_shard.state(module)  # type: ignore[attr-defined]
        for handle in HANDLES:
            if hasattr(state, handle):
                getattr(state, handle).remove()
        # left behind, they would hold the old shards for ever
        for params in state._fsdp_param_groups:
            hooks = [p._post_load_hook_handle for p in params.fsdp_params]
            hooks += params._module_to_pre_save_state_dict_hook_handle.values()
            hooks += params._module_to_pre_load_state_dict_hook_handle.values()
            for hook in hooks:
                hook.remove()
        for key in (state_key, registry_key):
            module.__dict__.pop(key, None)
        states.pop(module, None)
        module.__class__ = type(module).__mro__[2]
    bare: dict[int, nn.Parameter] = {}
    for part in model.modules():
        for name, p in list(part._parameters.items()):
            if p is not None:
                if id(p) not in bare:
                    bare[id(p)] = nn.Parameter(
                        torch.empty(p.shape, dtype=p.dtype, device="meta"),
                        requires_grad=p.requires_grad,
                    )
                part._parameters[name] = bare[id(p)]


def allocate(
    model: nn.Module, device: str, given: Mapping[str, torch.Tensor] | None = None
) -> None:
    """Every parameter that has no memory gets it: what this rank holds of it is `given` by name,
    else unfilled. Shared ones still are."""
    names = {id(p): name for name, p in model.named_parameters()}
    real: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, p in list(module._parameters.items()):
            if p is not None and p.device.type == "meta":
                if id(p) not in real:
                    local = (given or {}).get(names[id(p)])
                    if local is None:
                        local = torch.empty_like(
                            p.to_local() if isinstance(p, DTensor) else p, device=device
                        )
                    real[id(p)] = nn.Parameter(
                        like(p, local) if isinstance(p, DTensor) else local,
                        requires_grad=p.requires_grad,
                    )
                module._parameters[name] = real[id(p)]


def like(p: DTensor, local: torch.Tensor) -> DTensor:
    """A tensor spread as `p` is, of which this rank has `local`."""
    return DTensor.from_local(
        local, p.device_mesh, p.placements, run_check=False, shape=p.shape, stride=p.stride()
    )


class _Quiet:
    """A collective of ours in the place of torch's: it says that a peer is gone by other means than
    an error inside the script."""

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
    """The model gathers its parameters and sums (never averages) its gradients by these. What
    follows finds them done."""
    for module in wrapped(model):
        module.set_custom_all_gather(_Quiet(all_gather))  # type: ignore[arg-type]
        module.set_custom_reduce_scatter(_Quiet(reduce_scatter))  # type: ignore[arg-type]
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)
