"""Collectives of the script's own, in a step that may run again.

They run in the group of the step in flight, in which workers have different numbers of
micro-batches. So they stand before or behind the loop over micro-batches, where every worker comes
once. A loss over the whole batch is computed in two passes (whole_batch.py). A worker that is lost
in a collective costs the step, as one that is lost in a pass.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Protocol, TypeVar

import torch

from elastic_runtime import collective_checks, messages
from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.meetings import (
    before_passes_of,
    behind_passes_of,
    evaluations_of,
)
from elastic_runtime.distributed.rows import all_gather_rows
from elastic_runtime.mistake import Mistake
from elastic_runtime.script_checks import raise_mistakes
from elastic_runtime.training.parts import Parts

SUMMED_BY_GLOO = (torch.float32, torch.float64, torch.int32, torch.int64)
T = TypeVar("T")


class Stage(Enum):
    """Where in the body of a step the script is. The values are part of a sentence."""

    BEFORE = "before the micro-batches"
    INSIDE = "between the micro-batches"
    BEHIND = "behind the micro-batches"
    ENDED = "after the step"


class Collectives:
    """Of one step.

    `is_broken`: the step cannot be committed, so its collectives return at once.
    """

    def __init__(self, parts: Parts, step: int, is_broken: Callable[[], bool]) -> None:
        self._parts = parts
        self._step = step
        self._is_broken = is_broken
        self.stage = Stage.BEFORE
        # How many were called.
        self.count = 0
        # A peer was lost in one.
        self.peer_lost = False

    def enter(self, stage: Stage) -> None:
        """From now on workers that are at an earlier stage wait in vain."""
        self.stage = stage
        passed = [evaluations_of(self._step)]
        if stage is not Stage.BEFORE:
            passed.append(before_passes_of(self._step))
        if stage is Stage.ENDED:
            passed.append(behind_passes_of(self._step))
        if group := self._parts.lifecycle.group:
            group.meetings.places = passed

    # --- one value for each worker ----------------------------------------------------------------

    def all_reduce(self, tensor: torch.Tensor, op: str) -> torch.Tensor:
        name = "step.all_reduce"
        self.check_place(name)
        raise_mistakes(collective_checks.tensor_mistakes(name, tensor))
        has_numbers = not (tensor.is_complex() or tensor.dtype == torch.bool)
        raise_mistakes(collective_checks.reduction_mistakes(op, has_numbers=has_numbers))
        total = tensor.detach().clone(memory_format=torch.contiguous_format)
        what = f"{op} of {_kind(tensor)} in shape {tuple(tensor.shape)}"

        def reduce(group: Group) -> torch.Tensor:
            if op == "sum" and (total.is_cuda or total.dtype in SUMMED_BY_GLOO):
                group.all_reduce(total).wait()
                return total
            # (workers, ...)
            gathered = all_gather_rows(group, total[None])
            if op == "sum":
                return gathered.sum(0, dtype=total.dtype)
            return gathered.amin(0) if op == "min" else gathered.amax(0)

        reduced = self.collect(f"{name} ({what}, {self.stage.value})", reduce)
        # A failed one may still write to `total`.
        return tensor.detach().clone() if reduced is None else reduced

    def all_gather(self, tensor: torch.Tensor) -> torch.Tensor:
        name = "step.all_gather"
        self.check_place(name)
        raise_mistakes(collective_checks.tensor_mistakes(name, tensor))
        own = tensor.detach().clone()
        own = own if own.dim() else own[None]
        gathered = self.gather_rows(f"{name} ({rows_of(own)}, {self.stage.value})", own)
        return own if gathered is None else gathered

    # --- one collective ---------------------------------------------------------------------------

    def check_place(self, name: str) -> None:
        if self.stage is Stage.ENDED:
            raise Mistake(collective_checks.STEP_ENDED % (name, self._step))
        # The loop of a step that is broken ends before its end.
        if self.stage is Stage.INSIDE and not self._is_broken():
            raise Mistake(collective_checks.INSIDE_LOOP % name)
        self.count += 1

    def gather_rows(self, call: str, own: torch.Tensor) -> torch.Tensor | None:
        """The rows of all workers; None if the step cannot be committed."""
        return self.collect(call, lambda group: all_gather_rows(group, own), alone=own)

    def collect(
        self, call: str, collective: Callable[[Group], T], alone: T | None = None
    ) -> T | None:
        """What the collective returns; None if the step cannot be committed, `alone` in a job of
        one. `call`: equal on all workers."""
        if self._is_broken():
            return None
        group = self._parts.lifecycle.group
        if not group:
            return alone
        self.enter(self.stage)
        is_behind = self.stage is Stage.BEHIND
        place = (behind_passes_of if is_behind else before_passes_of)(self._step)
        try:
            with self._reporting_waits(group):
                if group.meetings.hold(place, call) is not None:
                    raise Mistake(collective_checks.not_everywhere(call))
                if is_behind:
                    self._parts.strategy.end_passes()
                return None if self._is_broken() else collective(group)
        except PeerLost:
            # An exception would end the script.
            self.peer_lost = True
            return None

    @contextmanager
    def _reporting_waits(self, group: Group) -> Iterator[None]:
        """The agent learns that this worker waits, so that it finds the one that hangs."""
        lifecycle = self._parts.lifecycle
        has_reported = False

        def report() -> None:
            nonlocal has_reported
            if not has_reported:
                has_reported = True
                lifecycle.send(messages.Waiting(waits=True))

        group.meetings.on_wait = report
        try:
            yield
        finally:
            group.meetings.on_wait = _ignore
            if has_reported:
                lifecycle.send(messages.Waiting(waits=False))


def _ignore() -> None:
    """Nobody needs to know of waits elsewhere."""


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} on {tensor.device.type}"


def rows_of(tensor: torch.Tensor) -> str:
    return f"rows of {_kind(tensor)} in shape {tuple(tensor.shape[1:])}"


class CollectingStep(Protocol):
    """What these functions need of a step."""

    collectives: Collectives


def all_reduce(self: CollectingStep, tensor: torch.Tensor, op: str = "sum") -> torch.Tensor:
    """Combine a tensor of each worker, element by element. No gradient passes through it.

    Call it on all workers equally often and in the same order, before or behind the loop over
    micro-batches. A worker that is lost meanwhile costs the step: the call returns this worker's
    own tensor, nothing of the body is kept, and it runs again. So bound a loop that waits for a
    result: until the body ends, the result stays this worker's own.

    Args:
        tensor: numbers, of one shape and type on all workers.
        op: "sum", "min" or "max".

    Returns:
        a tensor of that shape, alike on all workers.

    Raises:
        ValueError: for mistakes in the script.
    """
    return self.collectives.all_reduce(tensor, op)


def all_gather(self: CollectingStep, tensor: torch.Tensor) -> torch.Tensor:
    """Gather the rows of all workers. No gradient passes through it. Called as `all_reduce`.

    Rows of a worker's micro-batches, in their order, are then those of the whole step, at every
    size.

    Args:
        tensor: (rows, ...): the number of rows may differ between workers; a single number is one.

    Returns:
        (rows of all workers, ...): in the order of ranks, alike on all workers.

    Raises:
        ValueError: for mistakes in the script.
    """
    return self.collectives.all_gather(tensor)
