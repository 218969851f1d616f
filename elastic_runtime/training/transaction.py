"""A step as a transaction: either all ranks commit it, or no rank does.

Gradients, loss and buffers are reduced first. The leading rank's orders, to save or to resize, are
part of the last reduction. Only then does the optimizer step. So all ranks stop after the same
step, and a fault costs only the step in flight.
"""

import time
from enum import Enum

import torch

from elastic_runtime import messages
from elastic_runtime.checkpointing.saver import SaveOrder
from elastic_runtime.data.streams import Streams
from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.training.parts import Parts
from elastic_runtime.training.step import Step


class Outcome(Enum):
    COMMITTED = "committed"
    # Committed; now all ranks join the next generation.
    RESIZE = "resize"
    # A peer was lost, and the step is not committed.
    FAILED = "failed"


class StepTransaction:
    """`gradients_reduced`: this rank has every reduced gradient of the step in flight.

    If another rank has committed that step, this rank can commit it too.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.streams: Streams | None = None
        self.gradients_reduced = False
        # The end of the loop over steps, and whether this rank's script wants it to end now.
        self.until = 0
        self.stop_requested = False
        # What the last change of generation added before the next step; for the journal.
        self.pause_s: float | None = None
        self._began = time.monotonic()

    def begin(self) -> Step:
        parts = self._parts
        step = Step(parts)
        self._began = time.monotonic()
        self.gradients_reduced = False
        parts.strategy.begin_step(parts.lifecycle.group)
        parts.buffers.begin_step(parts.lifecycle.group)
        return step

    def commit(self, step: Step) -> Outcome:
        parts = self._parts
        orders = self._orders()
        if step.broken or not self._reduce(step):
            return Outcome.FAILED
        self.gradients_reduced = True
        if parts.lifecycle.group:
            try:
                parts.lifecycle.group.all_reduce(orders).wait()
            except PeerLost:
                return Outcome.FAILED
        self.apply()
        next_generation, save, stop = (int(order) for order in orders[:3])
        if stop:
            # Before the state is saved.
            parts.state.stopped_loop = self.until
            self.stop_requested = False
        if self.streams:
            self.streams.unpack_states(orders[3:])
        if save:
            parts.saver.save_in_background(
                parts.state.step, parts.state.state_dict, SaveOrder(save)
            )
        if next_generation > parts.lifecycle.generation:
            return Outcome.RESIZE
        return Outcome.COMMITTED

    def _orders(self) -> torch.Tensor:
        """(3 + what the streams send,): see `RankLifecycle.next_orders`."""
        lifecycle = self._parts.lifecycle
        step = self._parts.state.step + 1
        save = SaveOrder.NONE
        if lifecycle.rank == 0:
            save = self._parts.saver.order_for(step, lifecycle.save_requests)
        orders = lifecycle.next_orders(save=save, stop=self.stop_requested)
        if self.streams:
            return torch.cat([orders, self.streams.pack_states(step)])
        return orders

    def _reduce(self, step: Step) -> bool:
        is_reduced = self._parts.strategy.reduce(step.loss, step.max_norm)
        return is_reduced and self._parts.buffers.reduce()

    def apply(self) -> None:
        """Update the state from the reduced gradients. From here on the step is committed."""
        state = self._parts.state
        lifecycle = self._parts.lifecycle
        state.loss, state.gradient_norm = self._parts.strategy.write_gradients()
        self._parts.buffers.write()
        state.optimizer.step()
        for scheduler in state.lr_schedulers:
            scheduler.step()
        state.step += 1
        self.gradients_reduced = False
        now = time.monotonic()
        lifecycle.committed_at = now
        pods = lifecycle.world // lifecycle.ranks_per_pod
        self._parts.journal.step(state.step, state.loss, pods, lifecycle.generation, self.pause_s)
        self.pause_s = None
        lifecycle.send(messages.StepCommitted(state.step, state.loss, now - self._began))
