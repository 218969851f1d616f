"""Sends a training state from one rank to another, through the host's memory.

The skeleton and the tensors' names go first, then the tensors.
"""

import torch

from elastic_runtime.distributed.group import Group
from elastic_runtime.state.state_tree import (
    State,
    can_hold,
    flatten,
    named_tensors,
    pack,
    unflatten,
    unpack,
    without_aliases,
)


def send(group: Group, state: State, target: int) -> None:
    """Send `state` to rank `target`; tensors on the CPU are not copied before.

    Raises PeerLost if a peer is lost.
    """
    tensors: list[torch.Tensor] = []
    skeleton = flatten(state, tensors)
    layout = [(name, tuple(tensor.shape), tensor.dtype) for name, tensor in named_tensors(state)]
    # (bytes,)
    header = torch.frombuffer(bytearray(pack((skeleton, layout))), dtype=torch.uint8)
    data = [tensor.contiguous().view(-1).cpu() for tensor in tensors if tensor.numel()]
    group.send([torch.tensor([header.numel()])], target)
    group.send([header, *data], target)


def receive(group: Group, source: int, live: State | None = None) -> State:
    """The state that rank `source` sends.

    A tensor is received into the tensor of the same name in `live` if that has its shape and type,
    else into new memory on the CPU. Raises PeerLost if a peer is lost; then the tensors of
    `live` have undefined contents.
    """
    length = torch.zeros(1, dtype=torch.int64)
    group.receive([length], source)
    header = torch.empty(int(length), dtype=torch.uint8)
    group.receive([header], source)
    skeleton, layout = unpack(header.numpy().tobytes())
    live_tensors = dict(enumerate(without_aliases(named_tensors(live or {}))))
    tensors = [
        _receive_buffer(live_tensors.get(number), name, shape, dtype)
        for number, (name, shape, dtype) in enumerate(layout)
    ]
    data = [tensor.view(-1) for tensor in tensors if tensor.numel()]
    # Tag 0 was the header.
    group.receive(data, source, first_tag=1)
    state: State = unflatten(skeleton, tensors)
    return state


def _receive_buffer(
    live: tuple[str, torch.Tensor] | None, name: str, shape: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    """The live tensor if it has this name, shape and type: new memory costs time."""
    if live and live[0] == name and can_hold(live[1], shape, dtype):
        return live[1]
    return torch.empty(shape, dtype=dtype)
