"""Gradients summed by hooks of our own, in buckets that are reduced while backward still runs.
Every gradient lives in its bucket."""

import torch

from elastic_runtime import script_checks
from elastic_runtime.distributed.group import Group, Work

BUCKET_BYTES = 8 << 20


class Buckets:
    """`start`, backward passes, `reduce`, `give_gradients`: one step. A parameter's `grad` is its
    place in a bucket, so none is copied.

    A step that breaks leaves sums of some ranks behind; the next `start` forgets them, and the
    memory of those still under way with them.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self._buckets = _split(list(reversed(self.parameters)))
        self._bucket_of = {p: i for i, bucket in enumerate(self._buckets) for p in bucket}
        kinds = [_kind(bucket[0]) for bucket in self._buckets]
        if kinds[-1][0] not in (torch.float32, torch.float64):
            # of the loss alone
            self._buckets.append([])
            kinds.append((torch.float32, kinds[-1][1]))
        sizes = [sum(p.numel() for p in bucket) for bucket in self._buckets]
        # the loss, in the last bucket, which waits for it
        sizes[-1] += 1
        self._memory = [
            torch.zeros(n, dtype=dtype, device=device)
            for n, (dtype, device) in zip(sizes, kinds, strict=True)
        ]
        self._places = [
            _places(memory, bucket)
            for memory, bucket in zip(self._memory, self._buckets, strict=True)
        ]
        self.expect_last = False
        self.broken = False
        self._group: Group | None = None
        self._works: list[Work | None] = []
        self._missing: list[int] = []
        # by the last backward pass of the step
        self._reached: set[torch.nn.Parameter] = set()
        for parameter in self.parameters:
            parameter.register_post_accumulate_grad_hook(self._accumulated)  # type: ignore[no-untyped-call]

    def start(self, group: Group | None) -> None:
        for at, work in enumerate(self._works):
            if self.broken and work is not None and work.may_write:
                self._renew(at)
        self._group = group
        self._works = []
        self.expect_last = False
        self.broken = False
        self._missing = [len(bucket) for bucket in self._buckets]
        self._reached = set()
        for at, memory in enumerate(self._memory):
            memory.zero_()
            self._place(at)

    def check(self, first: bool) -> None:
        """As the strategy's `check_gradients`: what is not reduced yet is in its bucket, or where
        the script put it."""
        for at in range(len(self._works), len(self._buckets)):
            if first:
                self._place(at)
            elif any(parameter.grad is None for parameter in self._buckets[at]):
                script_checks.raise_mistakes([script_checks.GRADIENTS_CLEARED])

    def _renew(self, at: int) -> None:
        self._memory[at] = torch.empty_like(self._memory[at])
        self._places[at] = _places(self._memory[at], self._buckets[at])

    def _place(self, at: int) -> None:
        """The gradients of a bucket are in it."""
        for parameter, place in zip(self._buckets[at], self._places[at], strict=True):
            if parameter.grad is not place:
                parameter.grad = place

    def _accumulated(self, parameter: torch.nn.Parameter) -> None:
        """In a rank's last micro-batch: a bucket whose gradients are all there goes, in the one
        order all ranks keep."""
        if not self.expect_last:
            return
        at = self._bucket_of[parameter]
        if at < len(self._works):
            script_checks.raise_mistakes([script_checks.LATE_GRADIENT])
        self._missing[at] -= parameter not in self._reached
        self._reached.add(parameter)
        while (
            not self.broken
            and len(self._works) < len(self._buckets) - 1
            and self._missing[len(self._works)] <= 0
        ):
            self._launch()

    def _launch(self) -> None:
        at = len(self._works)
        for parameter, place in zip(self._buckets[at], self._places[at], strict=True):
            if parameter.grad is None:
                place.zero_()
            elif parameter.grad is not place:
                place.copy_(parameter.grad)
            # nobody writes there while it is reduced
            parameter.grad = None
        try:
            self._works.append(self._group.all_reduce(self._memory[at]) if self._group else None)
        except RuntimeError:
            # a peer is gone; raising inside backward would end the user's script
            self.broken = True
            # it may be under way all the same
            self._renew(at)

    def reduce(self, loss: torch.Tensor) -> bool:
        """Whether every bucket and the loss are reduced here: summed over all ranks."""
        self._memory[-1][-1:].copy_(loss)
        while not self.broken and len(self._works) < len(self._buckets):
            self._launch()
        try:
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
        return float(self._memory[-1][-1])


def _places(memory: torch.Tensor, bucket: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    """One after the other, each laid out as `zero_grad` and backward would make the parameter's
    gradient."""
    found = []
    offset = 0
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
