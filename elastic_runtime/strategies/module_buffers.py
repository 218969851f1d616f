"""Buffers that training moves, as BatchNorm's running mean: after a step they are what micro-batch
0 made of them, at any size of the job.

A micro-batch starts from the buffers of the last committed step whoever computes it, and only what
micro-batch 0 leaves is kept. It is with
every rank before anybody commits, so a step that breaks has moved nothing. A model without buffers
in its state_dict pays nothing.
"""

import torch
from torch import nn

from elastic_runtime.distributed.group import Group


class Buffers:
    """`start`, `after` each pass, `reduce`, `give`: one step."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._names = [name for name, _ in model.named_buffers() if name in model.state_dict()]
        self._group: Group | None = None
        # every rank of a group says the same
        self._first = True
        self._moving = self._names
        # as the last committed step left them
        self._before: list[torch.Tensor] = []
        # by micro-batch 0 of the step in flight, if it was ours
        self._made: list[torch.Tensor] | None = None
        self._said = torch.zeros(0)

    def _live(self) -> list[torch.Tensor]:
        named = dict(self._model.named_buffers())
        return [named[name] for name in self._names]

    def start(self, group: Group | None) -> None:
        """A step begins. In a group's first all buffers are sent, then those that moved; what
        starts later, from its second step."""
        self._first = self._first or group is not self._group
        self._group = group
        self._moving = self._names if self._first else self._moving
        self._before = [buffer.clone() for buffer in self._live()]
        self._made = None

    def after(self, number: int, *, counts: bool) -> None:
        """A pass over micro-batch `number` has ended: what it made of the buffers is taken back,
        and kept if it is the one that says."""
        if counts and number == 0:
            self._made = [buffer.clone() for buffer in self._live()]
        _write(self._live(), self._before)

    def reduce(self) -> bool:
        """Whether what micro-batch 0 made is here."""
        made = self._made or [torch.zeros_like(buffer) for buffer in self._before]
        moved = [
            float(not torch.equal(new, old)) if self._made else 0.0
            for new, old in zip(made, self._before, strict=True)
        ]
        going = [
            _halfwords(new)
            for name, new in zip(self._names, made, strict=True)
            if name in self._moving
        ]
        # (buffers + halfwords of those that move,)
        self._said = torch.cat([torch.tensor(moved), *going])
        try:
            if self._group and self._names:
                self._group.all_reduce(self._said).wait()
        except RuntimeError:
            return False
        return True

    def give(self) -> None:
        """The step is committed."""
        if self._made:
            _write(self._live(), self._made)
        at = len(self._names)
        for name, buffer in zip(self._names, self._live(), strict=True):
            if name in self._moving:
                length = _halfwords(buffer).numel()
                _write([buffer], [_whole(self._said[at : at + length], buffer)])
                at += length
        seen = {
            name
            for name, moved in zip(
                self._names, self._said[: len(self._names)].tolist(), strict=True
            )
            if moved
        }
        kept = () if self._first else self._moving
        self._first = False
        self._moving = [name for name in self._names if name in seen or name in kept]


def _write(to: list[torch.Tensor], given: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for buffer, value in zip(to, given, strict=True):
            buffer.copy_(value)


def _halfwords(tensor: torch.Tensor) -> torch.Tensor:
    """Its bits as whole numbers that a sum with zeros leaves exact: (halfwords,) of floats."""
    flat = tensor.detach().to("cpu").contiguous().view(-1)
    return (flat.to(torch.int16) if tensor.itemsize == 1 else flat.view(torch.int16)).to(
        torch.float32
    )


def _whole(halfwords: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    bits = halfwords.to(torch.int16)
    return (bits.to(like.dtype) if like.itemsize == 1 else bits.view(like.dtype)).view(like.shape)
