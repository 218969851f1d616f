"""Replicated training: every rank holds the whole state; hooks sum the gradients in buckets."""

from collections.abc import Iterable

import torch

from elastic_runtime import parameter_checks
from elastic_runtime.data import batch_assignment
from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.recovery import RecoveryPlan
from elastic_runtime.strategies import whole_state
from elastic_runtime.strategies.base import Pass, StateAccess
from elastic_runtime.strategies.finite_gradients import all_finite
from elastic_runtime.strategies.gradient_buckets import GradientBuckets


class Replicated:
    """Every rank that is left has the whole state, so a lost rank costs only the step in flight."""

    def model_mistakes(self, model: torch.nn.Module) -> Iterable[str]:
        if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
            yield (
                "the model has tensors on the meta device, which hold no values: build it on the "
                "device where it is to train, or use strategy=Sharded(wrap)"
            )

    def attach(self, state: StateAccess) -> None:
        self._state = state
        self._buckets = GradientBuckets(state.model, state.sum_count)
        self._known = parameter_checks.KnownParameters(state.model)

    def detach(self) -> None:
        self._buckets.remove_hooks()

    @property
    def broken(self) -> bool:
        return self._buckets.broken

    def shard_group_size(self, world: int) -> int:
        return 0

    def passes(self, rank: int, world: int, micro_batches: int) -> list[Pass]:
        return [Pass(number) for number in batch_assignment.owned(rank, world, micro_batches)]

    def begin_step(self, group: Group | None) -> None:
        self._buckets.begin_step(group)

    def begin_pass(self, *, is_last: bool) -> None:
        self._buckets.in_last_pass = is_last

    def check_gradients(self, *, is_first: bool) -> None:
        self._buckets.check(is_first=is_first)

    def parameter_mistakes(self) -> Iterable[str]:
        return self._known.mistakes(self._state.optimizers)

    def backward(self, loss: torch.Tensor, weight: float) -> None:
        if weight:
            (loss * weight).backward()  # type: ignore[no-untyped-call]
        self._end_backward()

    def _end_backward(self) -> None:
        self._buckets.end_backward()

    def end_pass(self, micro_batch: int) -> None:
        """Nothing to do: the hooks have taken the gradients."""

    def end_passes(self) -> None:
        self._buckets.launch_all_but_last()

    def reduce(self, numbers: torch.Tensor, max_norm: float | None) -> bool:
        self._max_norm = max_norm
        return self._buckets.reduce(numbers)

    def summed(self) -> torch.Tensor:
        return self._buckets.summed()

    def is_finite(self) -> bool:
        return all_finite(self._buckets.sums())

    def write_gradients(self, factor: float) -> float | None:
        self._buckets.write_gradients(factor)
        if self._max_norm is None:
            return None
        return float(torch.nn.utils.clip_grad_norm_(self._buckets.parameters, self._max_norm))

    def begin_evaluation(self) -> None:
        """Nothing to do: a pass needs no other rank."""

    def end_evaluation(self) -> None:
        """Nothing to do: a pass leaves the parameters alone."""

    def hand_over(self, group: Group, next_ranks: tuple[int, ...], next_world: int) -> None:
        """Nothing to do: every rank that stays has the whole state."""

    def enter(self, group: Group | None, recovery: RecoveryPlan) -> None:
        if recovery.cold_start:
            self._state.find_saved(group)
            is_loaded = self._state.load_newest(group)
            if group:
                whole_state.spread_from_first(group, self._state, is_loaded=is_loaded)
        elif group:
            sources = [*recovery.holders, *recovery.committers]
            whole_state.spread(group, self._state, sources, recovery.receivers)
