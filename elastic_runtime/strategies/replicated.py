"""Replicated training: every rank holds the whole state, and the gradients are summed by hooks of
our own."""

import torch

from elastic_runtime.data import batch_assignment
from elastic_runtime.distributed import state_transfer
from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.recovery import RecoveryPlan
from elastic_runtime.strategies.base import Training, Turn
from elastic_runtime.strategies.gradient_buckets import Buckets


class Replicated:
    """Any rank that is left has everything, so whoever is lost costs the step in flight only. The
    model stays the script's own."""

    def attach(self, session: Training) -> None:
        self._session, self._buckets = session, Buckets(session.model)

    @property
    def broken(self) -> bool:
        return self._buckets.broken

    def shards(self, world: int) -> int:
        return 0

    def turns(self, rank: int, world: int, micro_batches: int) -> list[Turn]:
        return [Turn(number) for number in batch_assignment.owned(rank, world, micro_batches)]

    def start(self, group: Group | None) -> None:
        self._buckets.start(group)

    def before(self, turn: Turn, *, last: bool) -> None:
        self._buckets.expect_last = last

    def check_gradients(self, *, first: bool) -> None:
        self._buckets.check(first)

    def after(self, turn: Turn) -> None:
        """The hooks have seen to it."""

    def reduce(self, loss: torch.Tensor, max_norm: float | None) -> bool:
        self._max_norm = max_norm
        return self._buckets.reduce(loss)

    def give_gradients(self) -> tuple[float, float | None]:
        loss = self._buckets.give_gradients()
        if self._max_norm is None:
            return loss, None
        return loss, float(torch.nn.utils.clip_grad_norm_(self._buckets.parameters, self._max_norm))

    def hand_over(self, group: Group, places: tuple[int, ...], world: int) -> None:
        """Nobody holds anything alone."""

    def enter(self, group: Group | None, recovery: RecoveryPlan) -> None:
        rank = group.rank if group else 0
        holders = [*recovery.holders, *recovery.committers]
        behind = list(recovery.receivers)
        if recovery.cold_start:
            self._session.load(group)
            holders = [0]
            behind = behind[1:]
        for place, to in enumerate(behind):
            source = holders[place % len(holders)]
            if group and rank == source:
                state_transfer.send(group, self._session.state(), to)
            elif group and rank == to:
                self._session.receive(group, source)
