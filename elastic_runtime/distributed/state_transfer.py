"""State from rank to rank: everything a step depends on, as a small skeleton and a list of tensors.
By way of the host's memory."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from elastic_runtime.checkpointing.partition import named
from elastic_runtime.distributed.group import Group

State = dict[str, Any]


def take_apart(state: Any, tensors: list[torch.Tensor]) -> Any:
    """The state with every tensor replaced by `("tensor", number)`; the tensors are appended to
    `tensors`, none is copied."""
    if isinstance(state, torch.Tensor):
        tensors.append(state.detach())
        return ("tensor", len(tensors) - 1)
    if isinstance(state, Mapping):
        return {key: take_apart(value, tensors) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        parts = [take_apart(value, tensors) for value in state]
        return parts if isinstance(state, list) else ("tuple", parts)
    return state


def put_together(skeleton: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(skeleton, tuple):
        kind, value = skeleton
        return (
            tensors[value]
            if kind == "tensor"
            else tuple(put_together(part, tensors) for part in value)
        )
    if isinstance(skeleton, dict):
        return {key: put_together(value, tensors) for key, value in skeleton.items()}
    if isinstance(skeleton, list):
        return [put_together(part, tensors) for part in skeleton]
    return skeleton


def pack(value: Any) -> bytes:
    """What `unpack` gives back. Raises what pickle raises of what it cannot take."""
    packed = io.BytesIO()
    torch.save(value, packed)
    return packed.getvalue()


def unpack(packed: bytes) -> Any:
    """Plain data and tensors, in fresh memory. Raises pickle.UnpicklingError for anything else: no
    code is run."""
    return torch.load(io.BytesIO(packed), weights_only=True)


def send(group: Group, state: State, to: int) -> None:
    """Give `state` to rank `to`, tensors on the CPU straight from where they are."""
    tensors: list[torch.Tensor] = []
    skeleton = take_apart(state, tensors)
    said = [(name, tuple(t.shape), t.dtype) for name, t in named(state)]
    # (bytes,)
    head = torch.frombuffer(bytearray(pack((skeleton, said))), dtype=torch.uint8)
    group.send([torch.tensor([head.numel()])], to)
    group.send([head, *(t.contiguous().view(-1).cpu() for t in tensors if t.numel())], to)


def receive(group: Group, source: int, live: State | None = None) -> State:
    """The state that rank `source` sends: in the memory of `live` where that has the same tensor,
    else in fresh memory of the CPU.

    Raises RuntimeError if a peer is lost; then the tensors of `live` hold anything.
    """
    length = torch.zeros(1, dtype=torch.int64)
    group.receive([length], source)
    head = torch.empty(int(length), dtype=torch.uint8)
    group.receive([head], source)
    skeleton, said = unpack(head.numpy().tobytes())
    here = dict(enumerate(_apart(named(live or {}))))
    tensors = [_room(here.get(at), *of) for at, of in enumerate(said)]
    flat = [t.view(-1) for t in tensors if t.numel()]
    group.receive(flat, source, first=1)
    state: State = put_together(skeleton, tensors)
    return state


def _apart(found: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    """Without a name where a tensor begins that another name has: what they are sent may differ."""
    begins = set[int]()
    for name, tensor in found:
        yield ("" if tensor.data_ptr() in begins else name), tensor
        begins.add(tensor.data_ptr())


def _room(
    here: tuple[str, torch.Tensor] | None, name: str, shape: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    """The tensor that is `here` if it can take what comes, for fresh memory costs time."""
    return (
        here[1]
        if here and here[0] == name and fits(here[1], shape, dtype)
        else torch.empty(shape, dtype=dtype)
    )


def fits(live: torch.Tensor, shape: Sequence[int], dtype: torch.dtype) -> bool:
    """Whether the bytes of such a tensor can be written straight into this one."""
    return (tuple(live.shape), live.dtype, live.device.type) == (
        tuple(shape),
        dtype,
        "cpu",
    ) and live.is_contiguous()
