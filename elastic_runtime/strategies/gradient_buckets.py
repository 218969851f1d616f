"""Sums gradients over the ranks in buckets, by hooks, while the backward pass still runs."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from elastic_runtime import script_checks
from elastic_runtime.distributed.gloo import PeerLost, drop_on_thread
from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.process_groups import Work

BUCKET_BYTES = 8 << 20


class GradientBuckets:
    """One step is `begin_step`, backward passes, `reduce`, `write_gradients`.

    The `grad` of a parameter is a view of its bucket, so no gradient is copied. A step that fails
    leaves partial sums in the buckets; the next `begin_step` clears them, and replaces a bucket
    that a collective may still write to.
    """

    def __init__(self, model: torch.nn.Module, sum_count: int = 1) -> None:
        """`sum_count`: how many numbers are summed beside the gradients."""
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self._buckets = _split(list(reversed(self.parameters)))
        self._bucket_of = {p: i for i, bucket in enumerate(self._buckets) for p in bucket}
        # How many are launched before `reduce`: the last one shows what the script does behind the
        # last pass.
        self._early_count = len(self._buckets) - 1
        kinds = [_kind(bucket[0]) for bucket in self._buckets]
        if kinds[-1][0] not in (torch.float32, torch.float64):
            # A bucket for the numbers alone: this type is too narrow for them.
            self._buckets.append([])
            kinds.append((torch.float32, kinds[-1][1]))
        sizes = [_elements(bucket) for bucket in self._buckets]
        # The last bucket also holds the numbers, and so is the last to be reduced.
        sizes[-1] += sum_count
        self._sum_count = sum_count
        self._memory = [
            torch.zeros(size, dtype=dtype, device=device)
            for size, (dtype, device) in zip(sizes, kinds, strict=True)
        ]
        self._views = [
            _views(memory, bucket)
            for memory, bucket in zip(self._memory, self._buckets, strict=True)
        ]
        self.in_last_pass = False
        self.broken = False
        self._group: Group | None = None
        # The collectives of the buckets that were launched, in order.
        self._works: list[Work | None] = []
        # By bucket: how many gradients the last pass has not reached yet.
        self._missing: list[int] = []
        self._reached: set[torch.nn.Parameter] = set()
        # By bucket: how often its memory was written when the last backward pass had ended.
        self._writes: list[int] = []
        self._hooks = [
            _register_hook(parameter, self._on_gradient) for parameter in self.parameters
        ]

    def remove_hooks(self) -> None:
        """Afterwards the model trains as any other."""
        for hook in self._hooks:
            hook.remove()

    def begin_step(self, group: Group | None) -> None:
        if self.broken:
            self._replace_written_memory()
            drop_on_thread(self._works)
        self._group = group
        self._works = []
        self.in_last_pass = False
        self.broken = False
        self._missing = [len(bucket) for bucket in self._buckets]
        self._reached = set()
        for index, memory in enumerate(self._memory):
            memory.zero_()
            self._set_grads(index)

    def check(self, *, is_first: bool) -> None:
        """See `Strategy.check_gradients`. It covers the buckets that are not launched yet."""
        for index in range(len(self._works), len(self._buckets)):
            if is_first:
                self._set_grads(index)
            elif any(parameter.grad is None for parameter in self._buckets[index]):
                script_checks.raise_mistakes([script_checks.GRADIENTS_CLEARED])
            elif self._memory[index]._version != self._writes[index]:
                script_checks.raise_mistakes([script_checks.GRADIENTS_CHANGED])

    def end_backward(self) -> None:
        """Called after each backward pass, before the script goes on."""
        self._writes = [memory._version for memory in self._memory]

    def _replace_written_memory(self) -> None:
        """Of collectives that failed and may still write."""
        for index, work in enumerate(self._works):
            if work is not None and work.may_write:
                self._replace_memory(index)

    def _replace_memory(self, index: int) -> None:
        self._memory[index] = torch.empty_like(self._memory[index])
        self._views[index] = _views(self._memory[index], self._buckets[index])

    def _set_grads(self, index: int) -> None:
        """Let the gradients of a bucket be views of its memory."""
        for parameter, view in zip(self._buckets[index], self._views[index], strict=True):
            if parameter.grad is not view:
                parameter.grad = view

    def _on_gradient(self, parameter: torch.nn.Parameter) -> None:
        """In a rank's last pass, launch each bucket that is complete, in the same order everywhere.

        All ranks must launch their collectives in one order.
        """
        if not self.in_last_pass:
            return
        index = self._bucket_of[parameter]
        if index < len(self._works):
            script_checks.raise_mistakes([script_checks.LATE_GRADIENT])
        self._missing[index] -= parameter not in self._reached
        self._reached.add(parameter)
        while (
            not self.broken
            and len(self._works) < self._early_count
            and self._missing[len(self._works)] <= 0
        ):
            self._launch()

    def _launch(self) -> None:
        index = len(self._works)
        for parameter, view in zip(self._buckets[index], self._views[index], strict=True):
            if parameter.grad is None:
                view.zero_()
            elif parameter.grad is not view:
                view.copy_(parameter.grad)
            # So that nothing writes there while it is reduced.
            parameter.grad = None
        try:
            self._works.append(self._group.all_reduce(self._memory[index]) if self._group else None)
        except PeerLost:
            # A peer is lost. An exception inside the backward pass would end the user's script.
            self.broken = True
            # The collective may run all the same: NCCL may have queued it.
            self._replace_memory(index)

    def launch_all_but_last(self) -> None:
        """Afterwards every rank has launched these, whichever gradients its passes reached."""
        while not self.broken and len(self._works) < self._early_count:
            self._launch()

    def reduce(self, numbers: torch.Tensor) -> bool:
        """True if the sums of all buckets and of `numbers`, over all ranks, are here."""
        self.summed().copy_(numbers)
        while not self.broken and len(self._works) < len(self._buckets):
            self._launch()
        try:
            for work in self._works:
                if work is not None:
                    work.wait()
        except PeerLost:
            self.broken = True
        if not self.broken:
            # They would keep the connections of a group that is closed next.
            self._works = [None] * len(self._works)
        return not self.broken

    def summed(self) -> torch.Tensor:
        """(sum_count,): the sums of `numbers`, until `write_gradients`."""
        return self._memory[-1][-self._sum_count :]

    def sums(self) -> list[torch.Tensor]:
        """Of the gradients, until `write_gradients`: (elements of a bucket,) for each bucket."""
        return [*self._memory[:-1], self._memory[-1][: -self._sum_count]]

    def write_gradients(self, factor: float = 1.0) -> None:
        """Put the sums, times `factor`, where the optimizer reads them."""
        for index in range(len(self._buckets)):
            self._set_grads(index)
            if factor != 1.0:
                self._memory[index].mul_(factor)


def _register_hook(
    parameter: torch.nn.Parameter, hook: Callable[[torch.nn.Parameter], None]
) -> RemovableHandle:
    register: Any = parameter.register_post_accumulate_grad_hook
    handle: RemovableHandle = register(hook)
    return handle


def _views(memory: torch.Tensor, bucket: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    """The gradients of a bucket, end to end, with the strides that a backward pass would choose."""
    views = []
    offset = 0
    for parameter in bucket:
        strides = torch.empty_like(parameter, device="meta").stride()
        views.append(memory.as_strided(parameter.shape, strides, offset))
        offset += parameter.numel()
    return views


def _split(parameters: list[torch.nn.Parameter]) -> list[list[torch.nn.Parameter]]:
    """Neighbours of one type and device together, up to `BUCKET_BYTES` in each bucket."""
    buckets: list[list[torch.nn.Parameter]] = []
    space = 0
    for parameter in parameters:
        size = parameter.numel() * parameter.element_size()
        if not buckets or space < size or _kind(buckets[-1][0]) != _kind(parameter):
            buckets.append([])
            space = BUCKET_BYTES
        buckets[-1].append(parameter)
        space -= size
    return buckets


def _elements(bucket: Iterable[torch.nn.Parameter]) -> int:
    return sum(p.numel() for p in bucket)


def _kind(parameter: torch.nn.Parameter) -> tuple[torch.dtype, torch.device]:
    return parameter.dtype, parameter.device
