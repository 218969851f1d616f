"""Gradients averaged by hooks of our own: buckets reduced while backward still runs, into buffers apart from the gradients."""

from typing import Any

import torch

from elastic_runtime.group import Group

BUCKET_BYTES = 8 << 20


class Buckets:
    """`start`, backward passes, `reduce`, `give_gradients`: one step. Nothing of a rank's own is touched before `give_gradients`."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self._buckets = _split(list(reversed(self.parameters)))
        numbers = [sum(p.numel() for p in bucket) for bucket in self._buckets]
        self._buffers = [
            torch.zeros(n, dtype=bucket[0].dtype, device=bucket[0].device) for n, bucket in zip(numbers, self._buckets, strict=True)
        ]
        self._loss = torch.zeros(1, device=self._buffers[-1].device)
        self._during = len(self._buckets)  # so many buckets are reduced while backward still runs
        if self._buffers[-1].dtype in (torch.float32, torch.float64):  # the last one waits for the loss, which rides at its end
            self._buffers[-1] = self._buffers[-1].new_zeros(numbers[-1] + 1)
            self._loss, self._during = self._buffers[-1][-1:], self._during - 1
        self._bucket_of = {p: i for i, bucket in enumerate(self._buckets) for p in bucket}
        self.expect_last, self.broken = False, False
        self._group: Group | None = None
        self._works: list[Any] = []
        self._missing: list[int] = []
        for parameter in self.parameters:
            parameter.register_post_accumulate_grad_hook(self._accumulated)  # type: ignore[no-untyped-call]

    def start(self, group: Group | None) -> None:
        self._group, self._works, self.expect_last, self.broken = group, [], False, False
        self._missing = [len(bucket) for bucket in self._buckets]
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            else:
                parameter.grad.zero_()

    def _accumulated(self, parameter: torch.nn.Parameter) -> None:
        """In a rank's last micro-batch: a bucket whose gradients are all there goes, in the one order all ranks keep."""
        if not self.expect_last:
            return
        self._missing[self._bucket_of[parameter]] -= 1
        while not self.broken and len(self._works) < self._during and self._missing[len(self._works)] <= 0:
            self._launch()

    def _launch(self) -> None:
        at = len(self._works)
        offset = 0
        for parameter in self._buckets[at]:
            assert parameter.grad is not None
            self._buffers[at][offset : offset + parameter.numel()].copy_(parameter.grad.view(-1))
            offset += parameter.numel()
        try:
            self._works.append(self._group.all_reduce(self._buffers[at]) if self._group else None)
        except RuntimeError:  # a peer is gone; raising inside backward would end the user's script
            self.broken = True

    def reduce(self, loss: torch.Tensor) -> bool:
        """Whether every bucket and the loss are reduced here: summed over all ranks."""
        self._loss.copy_(loss)
        while not self.broken and len(self._works) < len(self._buckets):
            self._launch()
        try:
            if not self.broken and self._group and self._during == len(self._buckets):
                self._works.append(self._group.all_reduce(self._loss))
            for work in self._works:
                if work is not None:
                    work.wait()
        except RuntimeError:
            self.broken = True
        return not self.broken

    def give_gradients(self) -> float:
        """Write the reduced gradients where the optimizer reads them; the step's loss."""
        for bucket, buffer in zip(self._buckets, self._buffers, strict=True):
            offset = 0
            for parameter in bucket:
                assert parameter.grad is not None
                parameter.grad.copy_(buffer[offset : offset + parameter.numel()].view_as(parameter))
                offset += parameter.numel()
        return float(self._loss)


def _split(parameters: list[torch.nn.Parameter]) -> list[list[torch.nn.Parameter]]:
    """Neighbours of one type and device together, up to `BUCKET_BYTES` each."""
    buckets: list[list[torch.nn.Parameter]] = []
    room = 0
    for parameter in parameters:
        size = parameter.numel() * parameter.element_size()
        if not buckets or room < size or _kind(buckets[-1][0]) != _kind(parameter):
            buckets.append([])
            room = BUCKET_BYTES
        buckets[-1].append(parameter)
        room -= size
    return buckets


def _kind(parameter: torch.nn.Parameter) -> tuple[torch.dtype, torch.device]:
    return parameter.dtype, parameter.device
