"""Replicated training whose sums do not depend on the job's size: parameters are equal bit by bit
after the same steps at any size.

Each rank adds its gradients up in the order of one fixed tree; ranks exchange the sums of the
largest nodes they have, so that each adds up
one piece of the whole gradient in the order of the tree above them, and gathers the others' pieces.
It holds for equal processors, thread
counts and libraries. The loss that is told is a plain sum. It costs a gradient's memory for each
level of the tree, hides nothing behind
the backward pass, and sends as much as a ring where a rank's micro-batches are one node, a multiple
where they are several.
"""

from functools import reduce

import torch

from elastic_runtime import script_checks
from elastic_runtime.data import batch_assignment
from elastic_runtime.distributed.group import Group
from elastic_runtime.strategies import summation_tree
from elastic_runtime.strategies.base import Training, Turn
from elastic_runtime.strategies.replicated import Replicated


class Deterministic(Replicated):
    """Every rank holds the whole state. The gradients are summed when all of a rank's passes are
    done."""

    def attach(self, session: Training) -> None:
        self._session = session
        self._parameters = [p for p in session.model.parameters() if p.requires_grad]
        self._dtype = reduce(torch.promote_types, [p.dtype for p in self._parameters])
        script_checks.raise_mistakes(script_checks.device_mistakes(session.model.parameters()))
        self._lost, self._loss = False, torch.zeros(1, device=self._parameters[0].device)
        self._group: Group | None = None

    @property
    def broken(self) -> bool:
        return self._lost

    def turns(self, rank: int, world: int, micro_batches: int) -> list[Turn]:
        self._root = range(micro_batches)
        return super().turns(rank, world, micro_batches)

    def start(self, group: Group | None) -> None:
        self._group, self._lost, self._loss = group, False, torch.zeros_like(self._loss)
        # and their sums, from left to right
        self._nodes: list[tuple[range, torch.Tensor]] = []
        self._zero()

    def _zero(self) -> None:
        for p in self._parameters:
            p.grad = torch.zeros_like(p)

    def before(self, turn: Turn, *, last: bool) -> None:
        """One pass is as another."""

    def check_gradients(self, *, first: bool) -> None:
        """Those of every pass are taken when it ends."""

    def after(self, turn: Turn) -> None:
        if all(p.grad is None for p in self._parameters):
            script_checks.raise_mistakes([script_checks.GRADIENTS_CLEARED])
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        # (all parameters,)
        flat = torch.cat([g.reshape(-1).to(self._dtype) for g in gradients])
        self._zero()
        self._nodes.append((range(turn.number, turn.number + 1), flat))
        while len(self._nodes) > 1 and (
            above := summation_tree.parent(self._nodes[-2][0], self._nodes[-1][0], self._root)
        ):
            (_, left), (_, right) = self._nodes[-2:]
            self._nodes[-2:] = [(above, left + right)]

    def reduce(self, loss: torch.Tensor, max_norm: float | None) -> bool:
        self._max_norm = max_norm
        self._loss.copy_(loss)
        try:
            self._sum = self._add_up(self._group) if self._group else self._nodes[0][1]
            if self._group:
                self._group.all_reduce(self._loss).wait()
        except RuntimeError:
            self._lost = True
        return not self._lost

    def _add_up(self, group: Group) -> torch.Tensor:
        """(all parameters,)"""
        world = group.world
        n = sum(p.numel() for p in self._parameters)
        nodes = [
            summation_tree.cover(batch_assignment.owned(rank, world, len(self._root)), self._root)
            for rank in range(world)
        ]
        most = max(map(len, nodes))
        piece = -(-n // world)
        given = torch.zeros(world, most, piece, dtype=self._dtype, device=self._loss.device)
        for at, (_, flat) in enumerate(self._nodes):
            given[:, at] = torch.nn.functional.pad(flat, (0, world * piece - n)).view(world, piece)
        got = torch.empty_like(given)
        group.all_to_all(got, given)
        sums = {node: got[rank, at] for rank, of in enumerate(nodes) for at, node in enumerate(of)}

        def total(node: range) -> torch.Tensor:
            if node in sums:
                return sums[node]
            left, right = summation_tree.halves(node)
            return total(left) + total(right)

        return torch.cat(group.all_gather(total(self._root)))[:n]

    def give_gradients(self) -> tuple[float, float | None]:
        at = 0
        for p in self._parameters:
            p.grad = self._sum[at : at + p.numel()].view_as(p).to(p.dtype)
            at += p.numel()
        norm = (
            None
            if self._max_norm is None
            else float(torch.nn.utils.clip_grad_norm_(self._parameters, self._max_norm))
        )
        return float(self._loss), norm
