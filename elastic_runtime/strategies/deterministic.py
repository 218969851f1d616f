"""Replicated training whose sums do not depend on the job's size.

After the same steps the parameters are bitwise equal at every size, on equal processors, thread
counts and libraries. Each rank sums its gradients in the order of one fixed tree
(summation_tree.py). The ranks exchange the sums of the largest nodes that they have; each rank
then sums one piece of the whole gradient in the order of the tree above those nodes, and gathers
the pieces of the others.

It needs one more gradient's memory for each level of the tree, and does not overlap with the
backward pass. It sends as much as a ring if the micro-batches of a rank are one node of the tree,
and a multiple of that if they are several nodes.
"""

from functools import reduce

import torch

from elastic_runtime import parameter_checks, script_checks, session_checks
from elastic_runtime.data import batch_assignment
from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.distributed.group import Group
from elastic_runtime.strategies import summation_tree
from elastic_runtime.strategies.base import Pass, StateAccess
from elastic_runtime.strategies.finite_gradients import all_finite
from elastic_runtime.strategies.replicated import Replicated


class Deterministic(Replicated):
    """A strategy: after the same steps the parameters are equal bit by bit at every size.

    Every rank holds the whole state; the gradients are summed after all passes of a rank.
    """

    def attach(self, state: StateAccess) -> None:
        self._state = state
        self._parameters = [p for p in state.model.parameters() if p.requires_grad]
        self._known = parameter_checks.KnownParameters(state.model)
        self._dtype = reduce(torch.promote_types, [p.dtype for p in self._parameters])
        script_checks.raise_mistakes(session_checks.device_mistakes(state.model.parameters()))
        self._peer_lost = False
        self._device = self._parameters[0].device
        self._group: Group | None = None

    def detach(self) -> None:
        """Nothing to do: the gradients are taken without hooks."""

    @property
    def broken(self) -> bool:
        return self._peer_lost

    def passes(self, rank: int, world: int, micro_batches: int) -> list[Pass]:
        self._root = range(micro_batches)
        return super().passes(rank, world, micro_batches)

    def begin_step(self, group: Group | None) -> None:
        self._group = group
        self._peer_lost = False
        # The nodes that this rank has summed so far, from left to right.
        self._nodes: list[tuple[range, torch.Tensor]] = []
        self._zero_gradients()

    def _zero_gradients(self) -> None:
        for p in self._parameters:
            p.grad = torch.zeros_like(p)
        self._end_backward()

    def begin_pass(self, *, is_last: bool) -> None:
        """Nothing to do: all passes are alike."""

    def check_gradients(self, *, is_first: bool) -> None:
        if not is_first:
            script_checks.raise_mistakes(script_checks.gradient_mistakes(self._gradients))

    def _end_backward(self) -> None:
        self._gradients = script_checks.gradient_versions(self._parameters)

    def end_pass(self, micro_batch: int) -> None:
        self.check_gradients(is_first=False)
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        # (all parameters,)
        flat = torch.cat([gradient.reshape(-1).to(self._dtype) for gradient in gradients])
        self._zero_gradients()
        self._nodes.append((range(micro_batch, micro_batch + 1), flat))
        while len(self._nodes) > 1 and self._merge_last_two():
            pass

    def _merge_last_two(self) -> bool:
        """Replace the last two nodes by their parent; False if they are not siblings."""
        left, left_sum = self._nodes[-2]
        right, right_sum = self._nodes[-1]
        parent = summation_tree.parent(left, right, self._root)
        if parent is None:
            return False
        self._nodes[-2:] = [(parent, left_sum + right_sum)]
        return True

    def end_passes(self) -> None:
        """Nothing to do: a pass starts nothing."""

    def reduce(self, numbers: torch.Tensor, max_norm: float | None) -> bool:
        self._max_norm = max_norm
        # A collective of a failed step may still write to the old ones.
        self._numbers = numbers.to(self._device, copy=True)
        try:
            self._sum = self._sum_over_ranks(self._group) if self._group else self._nodes[0][1]
            if self._group:
                self._group.all_reduce(self._numbers).wait()
        except PeerLost:
            self._peer_lost = True
        return not self._peer_lost

    def _sum_over_ranks(self, group: Group) -> torch.Tensor:
        """(all parameters,)"""
        world = group.world
        length = sum(p.numel() for p in self._parameters)
        nodes_by_rank = [
            summation_tree.cover(batch_assignment.owned(rank, world, len(self._root)), self._root)
            for rank in range(world)
        ]
        most = max(map(len, nodes_by_rank))
        piece = -(-length // world)
        sent = torch.zeros(world, most, piece, dtype=self._dtype, device=self._device)
        for number, (_, flat) in enumerate(self._nodes):
            padded = torch.nn.functional.pad(flat, (0, world * piece - length))
            sent[:, number] = padded.view(world, piece)
        received = torch.empty_like(sent)
        group.all_to_all(received, sent)
        sums = {
            node: received[rank, number]
            for rank, nodes in enumerate(nodes_by_rank)
            for number, node in enumerate(nodes)
        }

        def total(node: range) -> torch.Tensor:
            if node in sums:
                return sums[node]
            left, right = summation_tree.halves(node)
            return total(left) + total(right)

        return torch.cat(group.all_gather(total(self._root)))[:length]

    def summed(self) -> torch.Tensor:
        return self._numbers

    def is_finite(self) -> bool:
        return all_finite([self._sum])

    def write_gradients(self, factor: float) -> float | None:
        if factor != 1.0:
            self._sum = self._sum * factor
        offset = 0
        for p in self._parameters:
            p.grad = self._sum[offset : offset + p.numel()].view_as(p).to(p.dtype)
            offset += p.numel()
        if self._max_norm is None:
            return None
        return float(torch.nn.utils.clip_grad_norm_(self._parameters, self._max_norm))
