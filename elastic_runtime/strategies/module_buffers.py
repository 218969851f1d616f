"""Buffers that change while training, such as BatchNorm's running mean.

After a step they are what micro-batch 0 made of them, at every size of the job. Every micro-batch
starts from the buffers of the last committed step, whichever rank computes it, and only the result
of micro-batch 0 is kept. Every rank has that result before any rank commits, so a step that fails
has changed no buffer. A model without buffers in its state_dict pays nothing.
"""

import torch
from torch import nn

from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.distributed.group import Group


class ModuleBuffers:
    """One step is `begin_step`, `end_pass` after each pass, `reduce`, `write`."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._names = [name for name, _ in model.named_buffers() if name in model.state_dict()]
        self._group: Group | None = None
        # This and `_changing` are equal on every rank of a group.
        self._is_first_step = True
        # The buffers that are sent in this step.
        self._changing = self._names
        # As the last committed step left them.
        self._committed: list[torch.Tensor] = []
        # As micro-batch 0 of the step in flight left them, if this rank computed it.
        self._result: list[torch.Tensor] | None = None
        self._message = torch.zeros(0)

    def _live(self) -> list[torch.Tensor]:
        buffers = dict(self._model.named_buffers())
        return [buffers[name] for name in self._names]

    def begin_step(self, group: Group | None) -> None:
        """The first step of a group sends all buffers; later steps send those that have changed.

        A buffer that changes for the first time later is sent from the step after that.
        """
        self._is_first_step = self._is_first_step or group is not self._group
        self._group = group
        self._changing = self._names if self._is_first_step else self._changing
        self._committed = [buffer.clone() for buffer in self._live()]
        self._result = None

    def end_pass(self, micro_batch: int, *, contributes: bool) -> None:
        """Undo what the pass did to the buffers; keep the result of micro-batch 0."""
        if contributes and micro_batch == 0:
            self._result = [buffer.clone() for buffer in self._live()]
        _copy(self._committed, self._live())

    def reduce(self) -> bool:
        """Send the result of micro-batch 0 to all ranks. True if it is here."""
        result = self._result or [torch.zeros_like(buffer) for buffer in self._committed]
        has_changed = [
            float(self._result is not None and not torch.equal(new, old))
            for new, old in zip(result, self._committed, strict=True)
        ]
        contents = [
            _to_halfwords(buffer)
            for name, buffer in zip(self._names, result, strict=True)
            if name in self._changing
        ]
        # (buffers + halfwords of those that are sent,); zeros on all ranks but one, so the sum
        # is what that rank sends
        self._message = torch.cat([torch.tensor(has_changed), *contents])
        try:
            if self._group and self._names:
                self._group.all_reduce(self._message).wait()
        except PeerLost:
            return False
        return True

    def write(self) -> None:
        """The step is committed: the buffers are what micro-batch 0 made of them."""
        if self._result:
            _copy(self._result, self._live())
        offset = len(self._names)
        for name, buffer in zip(self._names, self._live(), strict=True):
            if name in self._changing:
                length = _to_halfwords(buffer).numel()
                halfwords = self._message[offset : offset + length]
                _copy([_from_halfwords(halfwords, buffer)], [buffer])
                offset += length
        has_changed = self._message[: len(self._names)].tolist()
        changed = {name for name, flag in zip(self._names, has_changed, strict=True) if flag}
        if not self._is_first_step:
            changed |= set(self._changing)
        self._is_first_step = False
        self._changing = [name for name in self._names if name in changed]


def _copy(sources: list[torch.Tensor], targets: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for source, target in zip(sources, targets, strict=True):
            target.copy_(source)


def _to_halfwords(tensor: torch.Tensor) -> torch.Tensor:
    """The bits of a tensor as floats, 16 or 8 bits each; sums with zeros are exact: (halfwords,)"""
    flat = tensor.detach().to("cpu").contiguous().view(-1)
    halfwords = flat.to(torch.int16) if tensor.itemsize == 1 else flat.view(torch.int16)
    return halfwords.to(torch.float32)


def _from_halfwords(halfwords: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    bits = halfwords.to(torch.int16)
    flat = bits.to(like.dtype) if like.itemsize == 1 else bits.view(like.dtype)
    return flat.view(like.shape)
