"""The gradients of a rank that trains alone on a GPU: they stay where a backward pass puts them."""

import torch

from elastic_runtime import script_checks
from elastic_runtime.distributed.group import Group


class LoneGradients:
    """As `GradientBuckets`, without buckets: nothing is summed, so no gradient is moved.

    A pass over a bucket clears its memory and adds to it: for each parameter 16 bytes go through
    the memory of the GPU that a loop without a session leaves alone.
    """

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self.parameters = parameters
        self.broken = False
        self.in_last_pass = False

    def begin_step(self, group: Group | None) -> None:
        self._group = group
        self.broken = False
        self._clear()
        self.end_backward()

    def _clear(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def check(self, *, is_first: bool) -> None:
        """See `Strategy.check_gradients`."""
        if is_first:
            self._clear()
        else:
            script_checks.raise_mistakes(script_checks.gradient_mistakes(self._versions))

    def end_backward(self) -> None:
        """Called after each backward pass, before the script goes on."""
        self._versions = script_checks.gradient_versions(self.parameters)

    def launch_all_but_last(self) -> None:
        """Nothing to do: there is no other rank."""

    def reduce(self, numbers: torch.Tensor) -> bool:
        """True unless the group was aborted. Every parameter has a gradient then."""
        self.broken = self._group is not None and self._group.is_aborted
        self._numbers = numbers
        for parameter in self.parameters:
            if parameter.grad is None:
                # With other ranks, one of them might have reached it.
                parameter.grad = torch.zeros_like(parameter)
        return not self.broken

    def summed(self) -> torch.Tensor:
        """(sum_count,): `numbers`."""
        return self._numbers

    def sums(self) -> list[torch.Tensor]:
        """The gradients."""
        return [parameter.grad for parameter in self.parameters if parameter.grad is not None]

    def write_gradients(self, factor: float = 1.0) -> None:
        """Multiply the gradients by `factor`."""
        if factor != 1.0:
            torch._foreach_mul_(self.sums(), factor)
