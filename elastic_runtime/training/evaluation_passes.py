"""One rank's passes of an evaluation, and the votes in which all ranks look for a change.

A change, such as a resize, ends the evaluation on all ranks after the same pass, for with a sharded
model they also meet inside a pass. The leading rank decides how many passes lie between two votes.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from elastic_runtime import messages
from elastic_runtime.data import batch_assignment, random_state
from elastic_runtime.data.evaluation_data import EvaluationData
from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.distributed.group import Group
from elastic_runtime.training.evaluation_mode import evaluation_mode
from elastic_runtime.training.evaluation_results import Number
from elastic_runtime.training.evaluation_sums import RankSums
from elastic_runtime.training.parts import Parts
from elastic_runtime.training.step import Step
from elastic_runtime.training.transaction import StepTransaction

# The passes between two votes take about so long.
VOTE_INTERVAL_S = 0.5
# A pass is taken to last at least so long.
MIN_PASS_S = 1e-4
# Between two reports to the agent.
REPORT_INTERVAL_S = 0.1
# Takes a micro-batch and returns sums by name.
EvaluationFunction = Callable[[Any], Any]


class Resized(Exception):
    """All ranks join the next generation now."""


class Stopped(Exception):
    """A rank's script has called `session.stop` meanwhile."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of `session.evaluate`. `step`: in flight, None between two steps.

    `was_stopping`: the script had called `session.stop` before.
    """

    number: Number
    data: EvaluationData
    function: EvaluationFunction
    step: Step | None
    was_stopping: bool


@dataclass(frozen=True, slots=True)
class Ranks:
    """Those that evaluate together. `group`: None for one that is alone."""

    group: Group | None
    rank: int
    world: int

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        return self.group.all_gather_bytes(data) if self.group else [data]


class EvaluationPasses:
    """Of one session."""

    def __init__(self, parts: Parts, transaction: StepTransaction) -> None:
        self._parts = parts
        self._transaction = transaction
        # What the pass in flight returns counts. Otherwise other ranks need its collectives only.
        self.contributes = True
        # Begun in this evaluation.
        self._passes = 0
        self._reported_at = 0.0
        self._reported_waits = False

    def run(self, call: Call, ranks: Ranks) -> bytes:
        """This rank's sums, packed. Raises PeerLost, Resized or Stopped."""
        count = call.data.micro_batches
        own = batch_assignment.owned(ranks.rank, ranks.world, count)
        # No rank has more.
        rounds = -(-count // ranks.world)
        sums = RankSums(count)
        self._passes = 0
        vote_at = 0
        began = time.monotonic()
        with self._evaluation_mode():
            for number in range(rounds):
                if number == vote_at:
                    pass_s = (time.monotonic() - began) / number if number else VOTE_INTERVAL_S
                    vote_at += self._vote(call, ranks, pass_s)
                self.contributes = number < len(own)
                if self.contributes:
                    sums.add(own[number], self._pass(call, ranks, own[number]))
                elif self.is_in_lockstep(ranks.world):
                    self._pass(call, ranks, ranks.rank % count)
        self.report_waiting()
        return sums.pack()

    def is_in_lockstep(self, world: int) -> bool:
        """Whether every pass needs all ranks, also those whose micro-batches are done."""
        return self._parts.strategy.shard_group_size(world) > 0

    @contextmanager
    def _evaluation_mode(self) -> Iterator[None]:
        self._parts.strategy.begin_evaluation()
        with evaluation_mode(self._parts.state.model):
            try:
                yield
            finally:
                self._parts.strategy.end_evaluation()

    def _pass(self, call: Call, ranks: Ranks, micro_batch: int) -> Any:
        """What the function returns."""
        if ranks.group and ranks.group.is_aborted:
            raise PeerLost("the group was aborted during an evaluation")
        self._passes += 1
        self._report(self._passes, waits=False)
        seed = self._parts.state.data.seed
        random_state.seed(
            batch_assignment.random_seed(seed, call.number[0], micro_batch, "evaluation")
        )
        try:
            result = call.function(call.data.fetch(micro_batch))
        except Exception as error:
            if self._has_lost_a_peer(ranks.world):
                # It may have failed because of what it did not receive.
                raise PeerLost(str(error)) from error
            raise
        if self._has_lost_a_peer(ranks.world):
            raise PeerLost("a rank was lost during a pass")
        return result

    def _has_lost_a_peer(self, world: int) -> bool:
        """In this evaluation. Where a pass needs no other rank, it was lost in a step before it."""
        return self.is_in_lockstep(world) and self._parts.strategy.broken

    # --- votes ------------------------------------------------------------------------------------

    def _vote(self, call: Call, ranks: Ranks, pass_s: float) -> int:
        """How many passes lie before the next vote. Raises Resized or Stopped on all ranks."""
        # (3,): the generation to join now, whether a script stops the job, the result
        votes = torch.zeros(3, dtype=torch.float64)
        votes[1] = float(self._transaction.stop_requested and not call.was_stopping)
        if ranks.rank == 0:
            votes[0] = self._generation_to_join()
            votes[2] = max(1, int(VOTE_INTERVAL_S / max(pass_s, MIN_PASS_S)))
        if ranks.group:
            self.report_waiting()
            ranks.group.all_reduce(votes).wait()
        generation, stop, passes = (int(vote) for vote in votes)
        if generation > self._parts.lifecycle.generation:
            raise Resized
        if stop:
            raise Stopped
        return passes

    def _generation_to_join(self) -> int:
        """The planned one; 0 if there is none, or it must wait.

        Behind the loop none is joined. Between two steps none with new ranks: these would begin
        the next step, and never come here.
        """
        generation = self._parts.lifecycle.planned_generation()
        is_between = self._transaction.step is None
        if self._transaction.has_ended or (generation and is_between and self._plan_has_new_ranks):
            return 0
        return generation

    @property
    def _plan_has_new_ranks(self) -> bool:
        lifecycle = self._parts.lifecycle
        assert lifecycle.link
        record = lifecycle.link.record
        planned = {*zip(record.members, record.incarnations, strict=True)}
        return not planned <= {*zip(*lifecycle.processes, strict=True)}

    # --- for the agent ----------------------------------------------------------------------------

    def report_waiting(self) -> None:
        """This rank waits for others."""
        self._report(max(self._passes, 1), waits=True)

    def report_end(self) -> None:
        self._passes = 0
        self._report(0, waits=False)

    def _report(self, passes: int, *, waits: bool) -> None:
        """Each pass is progress: without it, the agent would take this process for a hung one."""
        now = time.monotonic()
        self._parts.lifecycle.evaluated_at = now
        has_changed = waits != self._reported_waits or not passes
        if has_changed or now - self._reported_at > REPORT_INTERVAL_S:
            self._reported_at = now
            self._reported_waits = waits
            self._parts.lifecycle.send(messages.Evaluating(passes, waits))
