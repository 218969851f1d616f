"""Takes a training state apart into plain data and a list of tensors, and puts it together."""

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

State = dict[str, Any]


def flatten(state: Any, tensors: list[torch.Tensor]) -> Any:
    """The state's skeleton: every tensor in it is replaced by `("tensor", number)`.

    The tensors are appended to `tensors`; none is copied.
    """
    if isinstance(state, torch.Tensor):
        tensors.append(state.detach())
        return ("tensor", len(tensors) - 1)
    if isinstance(state, Mapping):
        return {key: flatten(value, tensors) for key, value in state.items()}
    if isinstance(state, list):
        return [flatten(value, tensors) for value in state]
    if isinstance(state, tuple):
        return ("tuple", [flatten(value, tensors) for value in state])
    return state


def unflatten(skeleton: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """The state that `flatten` made `skeleton` from, with these tensors."""
    if isinstance(skeleton, tuple):
        kind, value = skeleton
        if kind == "tensor":
            return tensors[value]
        return tuple(unflatten(part, tensors) for part in value)
    if isinstance(skeleton, dict):
        return {key: unflatten(value, tensors) for key, value in skeleton.items()}
    if isinstance(skeleton, list):
        return [unflatten(part, tensors) for part in skeleton]
    return skeleton


def meta_copy(state: State) -> State:
    """The same state with tensors of the meta device: they have a shape and no memory."""
    tensors: list[torch.Tensor] = []
    skeleton = flatten(state, tensors)
    meta = [torch.empty(t.shape, dtype=t.dtype, device="meta") for t in tensors]
    copied: State = unflatten(skeleton, meta)
    return copied


def named_tensors(state: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of a state with its name, in the order of `flatten`.

    Names are those of torch.distributed.checkpoint: the keys that lead to it, joined by dots.
    """
    if isinstance(state, torch.Tensor):
        yield ".".join(path), state.detach()
    elif isinstance(state, Mapping):
        for key, value in state.items():
            yield from named_tensors(value, (*path, str(key)))
    elif isinstance(state, (list, tuple)):
        for number, value in enumerate(state):
            yield from named_tensors(value, (*path, str(number)))


def without_aliases(
    tensors: Iterable[tuple[str, torch.Tensor]],
) -> Iterator[tuple[str, torch.Tensor]]:
    """The same, with an empty name for a tensor that shares its memory with an earlier one.

    Two names may be given different values, so they must not share a buffer.
    """
    addresses = set[int]()
    for name, tensor in tensors:
        yield ("" if tensor.data_ptr() in addresses else name), tensor
        addresses.add(tensor.data_ptr())


def digest(state: State) -> bytes:
    """SHA-256 of everything in a state. Equal ones may differ in it if they were made in different
    ways; different ones never have the same."""
    tensors: list[torch.Tensor] = []
    skeleton = flatten(state, tensors)
    layout = [(tuple(tensor.shape), tensor.dtype) for tensor in tensors]
    total = hashlib.sha256(pack((skeleton, layout)))
    for tensor in tensors:
        if tensor.numel():
            total.update(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return total.digest()


def pack(value: Any) -> bytes:
    """The bytes that `unpack` reads. Raises what pickle raises for a value that it cannot store."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def unpack(packed: bytes) -> Any:
    """Plain data and tensors, in new memory.

    Raises pickle.UnpicklingError for anything else: no code is run.
    """
    return torch.load(io.BytesIO(packed), weights_only=True)


def can_hold(tensor: torch.Tensor, shape: Sequence[int], dtype: torch.dtype) -> bool:
    """Whether the bytes of a tensor of this shape and type can be written into `tensor`."""
    return (
        tuple(tensor.shape) == tuple(shape)
        and tensor.dtype == dtype
        and tensor.device.type == "cpu"
        and tensor.is_contiguous()
    )
