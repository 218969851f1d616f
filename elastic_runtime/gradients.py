"""Gradients summed by hooks of our own, in buckets that are reduced while backward still runs. Every gradient lives in its bucket."""

from typing import Any

import torch

from elastic_runtime import mistakes
from elastic_runtime.group import Group

BUCKET_BYTES = 8 << 20


class Buckets:
    """`start`, backward passes, `reduce`, `give_gradients`: one step. A parameter's `grad` is its place in a bucket, so none is copied.

    A step that breaks leaves sums of some ranks behind; the next `start` forgets them.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self._buckets = _split(list(reversed(self.parameters)))
        self._bucket_of = {p: i for i, bucket in enumerate(self._buckets) for p in bucket}
        self.expect_last, self.broken = False, False
        self._group: Group | None = None
        self._works: list[Any] = []
        self._missing: list[int] = []
        self._reached: set[torch.nn.Parameter] = set()  # by the last backward pass of the step
        self._allocate()
        for parameter in self.parameters:
            parameter.register_post_accumulate_grad_hook(self._accumulated)  # type: ignore[no-untyped-call]

    def _allocate(self) -> None:
        first = [bucket[0] for bucket in self._buckets]
        sizes = [sum(p.numel() for p in bucket) for bucket in self._buckets]
        rides = first[-1].dtype in (torch.float32, torch.float64)  # the loss, at the end of the last bucket, which waits for it
        sizes[-1] += rides
        self._memory = [torch.zeros(n, dtype=p.dtype, device=p.device) for n, p in zip(sizes, first, strict=True)]
        self._places = [_places(memory, bucket) for memory, bucket in zip(self._memory, self._buckets, strict=True)]
        self._loss = self._memory[-1][-1:] if rides else torch.zeros(1, device=first[-1].device)
        self._during = len(self._buckets) - rides  # so many buckets are reduced while backward still runs

    def start(self, group: Group | None) -> None:
        if self.broken:
            self._allocate()  # a sum that was cut off may still be written
        self._group, self._works, self.expect_last, self.broken = group, [], False, False
        self._missing, self._reached = [len(bucket) for bucket in self._buckets], set()
        for at, memory in enumerate(self._memory):
            memory.zero_()
            self._place(at)

    def _place(self, at: int) -> None:
        """The gradients of a bucket are in it."""
        for parameter, place in zip(self._buckets[at], self._places[at], strict=True):
            if parameter.grad is not place:
                parameter.grad = place

    def _accumulated(self, parameter: torch.nn.Parameter) -> None:
        """In a rank's last micro-batch: a bucket whose gradients are all there goes, in the one order all ranks keep."""
        if not self.expect_last:
            return
        at = self._bucket_of[parameter]
        if at < len(self._works):
            mistakes.refuse([mistakes.LATE])
        self._missing[at] -= parameter not in self._reached
        self._reached.add(parameter)
        while not self.broken and len(self._works) < self._during and self._missing[len(self._works)] <= 0:
            self._launch()

    def _launch(self) -> None:
        at = len(self._works)
        for parameter, place in zip(self._buckets[at], self._places[at], strict=True):
            if parameter.grad is None and parameter in self._reached:
                mistakes.refuse([mistakes.DROPPED])
            if parameter.grad is None:
                place.zero_()
            elif parameter.grad is not place:
                place.copy_(parameter.grad)
            parameter.grad = None  # nobody writes there while it is reduced
        try:
            self._works.append(self._group.all_reduce(self._memory[at]) if self._group else None)
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
        """The reduced gradients are where the optimizer reads them; the step's loss."""
        for at in range(len(self._buckets)):
            self._place(at)
        return float(self._loss)


def _places(memory: torch.Tensor, bucket: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    """One after the other, each laid out as `zero_grad` and backward would make the parameter's gradient."""
    found, offset = [], 0
    for parameter in bucket:
        strides = torch.empty_like(parameter, device="meta").stride()
        found.append(memory.as_strided(parameter.shape, strides, offset))
        offset += parameter.numel()
    return found


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
