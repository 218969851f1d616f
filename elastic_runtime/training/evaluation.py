"""`session.evaluate`: evaluates the model over all ranks, between two steps.

It is a step without a commit: micro-batches are dealt out as those of a step, and when a rank is
lost, or the job changes its size, the ranks of the next generation begin again. A rank that has the
result already gives it to the others.
"""

from collections.abc import Callable
from typing import Any, Protocol

from elastic_runtime import collective_checks, evaluation_checks, session_checks
from elastic_runtime.data import random_state
from elastic_runtime.data.evaluation_data import EvaluationData
from elastic_runtime.data.map_dataset import Indexed
from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.distributed.group import Group, all_gather_object
from elastic_runtime.distributed.meetings import evaluations_of
from elastic_runtime.mistake import Mistake
from elastic_runtime.script_checks import raise_mistakes
from elastic_runtime.training import evaluation_sums
from elastic_runtime.training.evaluation_passes import (
    Call,
    EvaluationFunction,
    EvaluationPasses,
    Ranks,
    Resized,
    Stopped,
)
from elastic_runtime.training.evaluation_results import Number
from elastic_runtime.training.evaluation_sums import Sums
from elastic_runtime.training.generation_change import GenerationChange
from elastic_runtime.training.parts import Parts
from elastic_runtime.training.step import Step
from elastic_runtime.training.transaction import StepTransaction

NOT_EVERYWHERE = collective_checks.not_everywhere(collective_checks.EVALUATION)


class Evaluation:
    """Of one session."""

    def __init__(
        self, parts: Parts, transaction: StepTransaction, generations: GenerationChange
    ) -> None:
        self._parts = parts
        self._transaction = transaction
        self._generations = generations
        self._passes = EvaluationPasses(parts, transaction)
        self._is_running = False
        # Where the last call was, and how many came before it there.
        self._place: tuple[int, int, bool] | None = None
        self._count = 0
        # The generation and the step at which the others were beyond this rank's evaluations.
        self._answered_at = (-1, -1)

    def run(
        self,
        data: Indexed | int,
        function: EvaluationFunction,
        micro_batch_size: int,
        collate_fn: Callable[[list[Any]], Any] | None,
    ) -> Sums:
        """See `evaluate`."""
        step = self._transaction.step
        self._check_place(step)
        raise_mistakes(evaluation_checks.call_mistakes(function, micro_batch_size))
        evaluated = EvaluationData(data, micro_batch_size, collate_fn)
        was_stopping = self._transaction.stop_requested
        call = Call(self._next_number(step), evaluated, function, step, was_stopping)
        self._is_running = True
        try:
            with random_state.preserved():
                return self._run(call)
        except BaseException:
            if step:
                step.has_error = True
            raise
        finally:
            self._is_running = False
            self._passes.report_end()
            self._transaction.restart_clock()

    def _check_place(self, step: Step | None) -> None:
        if self._is_running:
            raise Mistake(evaluation_checks.NESTED)
        if not self._parts.state.is_complete:
            raise Mistake(evaluation_checks.OUTSIDE_LOOP)
        if step and step.has_begun and not step.broken:
            raise Mistake(evaluation_checks.INSIDE_STEP % step.number)
        if step and step.has_error:
            raise Mistake(evaluation_checks.ERROR_CAUGHT)
        if step and step.collectives.count:
            raise Mistake(collective_checks.EVALUATE_FIRST % step.number)

    def _next_number(self, step: Step | None) -> Number:
        is_in_step = step is not None
        place = (self._parts.state.step, self._transaction.steps_begun, is_in_step)
        self._count = self._count + 1 if place == self._place else 0
        self._place = place
        return place[0], is_in_step, self._count

    # --- until it is complete ---------------------------------------------------------------------

    def _run(self, call: Call) -> Sums:
        if self._transaction.has_ended:
            return self._run_behind_loop(call)
        while not (call.step and call.step.is_superseded):
            try:
                if call.step and call.step.broken:
                    raise PeerLost("a rank was lost before the evaluation")
                sums = self._attempt(call, self._ranks())
            except Resized:
                self._generations.resize()
            except PeerLost:
                self._generations.recover()
            else:
                self._transaction.results.add(call.number, sums)
                return sums
            if not self._resume(call):
                break
        return Sums()

    def _ranks(self) -> Ranks:
        lifecycle = self._parts.lifecycle
        return Ranks(lifecycle.group, lifecycle.rank, lifecycle.world)

    def _resume(self, call: Call) -> bool:
        """In the next generation. False if the job is at another step than this evaluation."""
        if self._parts.state.step != call.number[0]:
            if call.step:
                call.step.supersede()
            return False
        if call.step:
            self._transaction.resume()
        return True

    def _run_behind_loop(self, call: Call) -> Sums:
        """No generation forms any more: if a rank is lost or has ended, each evaluates alone."""
        ranks = self._ranks()
        try:
            return self._attempt(call, ranks)
        except PeerLost as error:
            if ranks.group:
                # For those that do not notice it.
                ranks.group.abort()
            if self._passes.is_in_lockstep(ranks.world):
                raise RuntimeError(evaluation_checks.STATE_LOST) from error
            return self._attempt(call, Ranks(None, 0, 1))

    def _attempt(self, call: Call, ranks: Ranks) -> Sums:
        """Raises PeerLost or Resized: then all begin again."""
        known = self._agree(call, ranks)
        if known is not None:
            return known
        try:
            packed = self._passes.run(call, ranks)
        except Stopped:
            return Sums()
        return evaluation_sums.total(ranks.all_gather_bytes(packed), call.data.micro_batches)

    # --- who is where -----------------------------------------------------------------------------

    def _agree(self, call: Call, ranks: Ranks) -> Sums | None:
        """Afterwards all ranks are in the same evaluation. Its result, if a rank has it already."""
        results = self._transaction.results
        while True:
            self._passes.report_waiting()
            if self._are_others_beyond(call, ranks.group):
                return self._given(call)
            own = [call.number, [call.data.samples, call.data.size], results.numbers()]
            gathered = all_gather_object(ranks.group, own)
            lowest: Number = min(tuple(number) for number, *_ in gathered)
            calls = [tuple(data) for number, data, _ in gathered if tuple(number) == lowest]
            raise_mistakes(evaluation_checks.agreement_mistakes(calls))
            is_known = [lowest in map(tuple, numbers) for *_, numbers in gathered]
            if len(calls) < ranks.world and not any(is_known):
                # Those that are beyond it never called it.
                raise Mistake(NOT_EVERYWHERE)
            if any(is_known):
                self._share(ranks, lowest, is_known.index(True))
            if lowest == call.number:
                return results.get(lowest)

    def _are_others_beyond(self, call: Call, group: Group | None) -> bool:
        """If so, this rank has their results; otherwise all ranks are in an evaluation."""
        if not group or self._transaction.has_ended:
            return False
        step = call.number[0]
        place = (self._parts.lifecycle.generation, step)
        if self._answered_at != place:
            answer = group.meetings.hold(evaluations_of(step), collective_checks.EVALUATION)
            if answer is not None:
                self._transaction.results.update(step, answer)
                self._answered_at = place
        return self._answered_at == place

    def _share(self, ranks: Ranks, number: Number, source: int) -> None:
        """Every rank gets the results that rank `source` has."""
        results = self._transaction.results
        own = results.pack() if ranks.rank == source else b""
        results.update(number[0], ranks.all_gather_bytes(own)[source])

    def _given(self, call: Call) -> Sums:
        """Its result, from a rank that is beyond."""
        sums = self._transaction.results.get(call.number)
        if sums is None:
            raise Mistake(NOT_EVERYWHERE)
        return sums

    @property
    def contributes(self) -> bool:
        """What the pass in flight returns counts."""
        return self._passes.contributes


class EvaluatingSession(Protocol):
    """What `evaluate` needs of a session."""

    _evaluation: Evaluation

    @property
    def micro_batch_size(self) -> int: ...


def contributes(session: EvaluatingSession) -> bool:
    """Inside the function of an evaluation: False if the pass runs only because other ranks need
    its collectives, so that the same micro-batch has another one."""
    return session._evaluation.contributes


@session_checks.checks_arguments("session.evaluate")
def evaluate(
    self: EvaluatingSession,
    data: Indexed | int,
    function: EvaluationFunction,
    *,
    micro_batch_size: int | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
) -> Sums:
    """Sum what `function` returns for each micro-batch of `data`, over all ranks.

    Call it on all ranks, at the top of the body of the loop over steps, or behind the loop. Every
    sample counts once: the micro-batches are dealt out over the ranks, and dealt out again when a
    rank is lost or the job changes its size. The function runs without gradients and with the model
    in evaluation mode; modes, buffers and random numbers are as before afterwards. It may run more
    than once for the same samples, so only what it returns counts.

    Args:
        data: a dataset with a length and samples by index; or how many samples there are, then the
            function gets their indices.
        function: called with each micro-batch, collated or as a list of indices; returns a dict of
            sums over its samples by name, each a number or a tensor whose shape is always the same;
            texts, and dicts that hold tensors, also nested, are not summed, but collected.
        micro_batch_size: samples of each; the last may have fewer. None: as in training.
        collate_fn: as DataLoader's; for a dataset only.

    Returns:
        a dict with the same keys, alike on every rank: numbers, or tensors on the CPU, in int64 if
        they are whole and in float64 otherwise, bit by bit equal at every number of ranks for which
        the function returns the same; lists of what is collected, in the order of the samples, with
        tensors on the CPU. If the step is lost, or `stop` is called meanwhile, its `is_complete` is
        False and every key gives NaN; a lost step comes again.

    Raises:
        ValueError: for mistakes in the script.
    """
    size = self.micro_batch_size if micro_batch_size is None else micro_batch_size
    return self._evaluation.run(data, function, size, collate_fn)
