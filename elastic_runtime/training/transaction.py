"""A step as a transaction: either all ranks commit it, or no rank does.

Gradients, loss and buffers are reduced first. The leading rank's orders, to save or to resize, are
part of the last reduction. Only then does the optimizer step. So all ranks stop after the same
step, and a fault costs only the step in flight.
"""

import logging
import time
from collections.abc import Sequence
from enum import Enum

import torch

from elastic_runtime import messages, parameter_checks
from elastic_runtime.checkpointing.saver import SaveOrder
from elastic_runtime.data.streams import Streams
from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.training import loss_scaling, loss_weights, replica_check
from elastic_runtime.training.collectives import Stage
from elastic_runtime.training.evaluation_results import EvaluationResults
from elastic_runtime.training.parts import Parts
from elastic_runtime.training.step import Source, Step

log = logging.getLogger(__name__)


class Outcome(Enum):
    COMMITTED = "committed"
    # Committed; now all ranks join the next generation.
    RESIZE = "resize"
    # A peer was lost, and the step is not committed.
    FAILED = "failed"
    # The job is at another step already.
    SUPERSEDED = "superseded"


class StepTransaction:
    """`gradients_reduced`: this rank has every reduced gradient of the step in flight.

    If another rank has committed that step, this rank can commit it too.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.streams: Streams | None = None
        # Of every step: where `step.data` reads, and the norm to clip the gradient to.
        self.source: Source | None = None
        self.max_norm: float | None = None
        self.gradients_reduced = False
        # In flight; None between two steps.
        self.step: Step | None = None
        self.steps_begun = 0
        # Of evaluations of the state of now.
        self.results = EvaluationResults()
        # The loop over steps has ended.
        self.has_ended = False
        # The end of the loop over steps, and whether this rank's script wants it to end now.
        self.until = 0
        self.stop_requested = False
        # What the last change of generation added before the next step; for the journal.
        self.pause_s: float | None = None
        self._began = time.monotonic()
        self._replicas_differ = False
        # The generation in which replicas were last compared.
        self._compared_in = 0

    def begin(self) -> Step:
        step = Step(self._parts, self.source, self.max_norm)
        self.step = step
        self.steps_begun += 1
        self.resume()
        return step

    def resume(self) -> None:
        """The step in flight, in which no micro-batch has begun, belongs to the group of now."""
        self.answer_evaluations(())
        self._began = time.monotonic()
        self.gradients_reduced = False
        self._parts.strategy.begin_step(self._parts.lifecycle.group)
        self._parts.buffers.begin_step(self._parts.lifecycle.group)

    def answer_evaluations(self, places: Sequence[str]) -> None:
        """Ranks that evaluate a state which this one is beyond get its results. It comes to these
        places no more."""
        if group := self._parts.lifecycle.group:
            group.meetings.places = places
            group.meetings.answer = self.results.pack

    def restart_clock(self) -> None:
        """What the script did so far is no part of the step in flight."""
        self._began = time.monotonic()

    def commit(self, step: Step) -> Outcome:
        parts = self._parts
        self.step = None
        step.collectives.enter(Stage.ENDED)
        if step.is_superseded:
            step.restore_objects()
            return Outcome.SUPERSEDED
        orders = self._orders()
        votes = self._with_digest(orders)
        if step.broken or not self._reduce(step):
            return Outcome.FAILED
        self.gradients_reduced = True
        if parts.lifecycle.group:
            try:
                parts.lifecycle.group.all_reduce(votes).wait()
            except PeerLost:
                return Outcome.FAILED
        # Whoever votes has left the save behind that the last step may have ended with.
        parts.saver.begin_writing()
        orders, digests = votes[: orders.numel()], votes[orders.numel() :]
        if digests.numel():
            self._check_replicas(digests)
        next_generation, save, stop = (int(order) for order in orders[:3])
        if save == SaveOrder.BEST:
            # What the script measured, before the optimizer changes it.
            parts.saver.save_in_background(parts.state.step, parts.state.state_dict)
        self.apply()
        if stop:
            # Before the state is saved.
            parts.state.stopped_loop = self.until
            self.stop_requested = False
        if self.streams:
            self.streams.unpack_states(orders[3:])
        if save in (SaveOrder.LOCAL, SaveOrder.SHARED):
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
            saver = self._parts.saver
            save = saver.order_for(step, lifecycle.save_requests)
            # A save that is due as well is made up for by this one.
            save = SaveOrder.BEST if saver.best.is_due(step - 1) else save
        orders = lifecycle.next_orders(save=save, stop=self.stop_requested)
        if self.streams:
            return torch.cat([orders, self.streams.pack_states(step)])
        return orders

    def _with_digest(self, orders: torch.Tensor) -> torch.Tensor:
        """One message: the orders, and in few steps (2 * world,) for the digests of all ranks."""
        lifecycle = self._parts.lifecycle
        state = self._parts.state
        if not lifecycle.group or not replica_check.is_due(state.step):
            return orders
        parameters = state.model.parameters()
        try:
            digests = replica_check.own_digest(parameters, lifecycle.rank, lifecycle.world)
        except Exception as error:  # noqa: BLE001
            # A job that trains must not end for a check.
            self._parts.warn_once(parameter_checks.NOT_COMPARED % type(error).__name__)
            digests = replica_check.no_digest(lifecycle.world)
        return torch.cat([orders, digests])

    def _check_replicas(self, digests: torch.Tensor) -> None:
        """The leading rank reports replicas that differ, and when they are equal again.

        Also in the first check of a generation: the leading rank before may have reported some.
        """
        lifecycle = self._parts.lifecycle
        if lifecycle.rank:
            return
        size = self._parts.strategy.shard_group_size(lifecycle.world)
        ranks = replica_check.differing_ranks(digests, size)
        step = self._parts.state.step
        message = parameter_checks.replicas_differ(ranks, lifecycle.world, step) if ranks else ""
        if message:
            log.error(message)
        if message or self._replicas_differ or self._compared_in < lifecycle.generation:
            lifecycle.send(messages.Progress(message=message))
        self._replicas_differ = bool(ranks)
        self._compared_in = lifecycle.generation

    def _reduce(self, step: Step) -> bool:
        is_reduced = self._parts.strategy.reduce(step.losses.to_sum(), step.max_norm)
        return is_reduced and self._parts.buffers.reduce()

    def apply(self) -> None:
        """Update the state from the reduced gradients. From here on the step is committed.

        Raises Mistake, on every rank, if the weights of its micro-batches are not those of a step.
        """
        state = self._parts.state
        lifecycle = self._parts.lifecycle
        total = loss_weights.step_loss(self._parts.strategy.summed(), state.step)
        scaling = state.loss_scaling
        is_finite = not scaling.is_enabled or self._parts.strategy.is_finite()
        factor = total.gradient_factor / scaling.multiplier
        state.gradient_norm = self._parts.strategy.write_gradients(factor)
        state.loss = total.loss
        self._parts.buffers.write()
        if is_finite:
            state.optimizers.step()
            for scheduler in state.lr_schedulers:
                scheduler.step()
        scaling.update(is_finite=is_finite, mean_weight=1 / total.gradient_factor)
        state.step += 1
        if not is_finite:
            self._report_skip()
        self.gradients_reduced = False
        now = time.monotonic()
        lifecycle.committed_at = now
        pods = lifecycle.world // lifecycle.ranks_per_pod
        self._parts.journal.step(state.step, state.loss, pods, lifecycle.generation, self.pause_s)
        self.pause_s = None
        lifecycle.send(messages.StepCommitted(state.step, state.loss, now - self._began))

    def _report_skip(self) -> None:
        """The optimizers skipped the last step."""
        state = self._parts.state
        scale = state.loss_scaling.scale
        if self._parts.lifecycle.rank == 0:
            facts = {"step": state.step, "loss_scale": scale}
            log.info("the optimizers skip a step: its gradients are not finite", extra=facts)
        if scale < 1:
            self._parts.warn_once(loss_scaling.TOO_LOW)
