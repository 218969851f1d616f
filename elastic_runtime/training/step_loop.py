"""The loop over steps, which the session's generator drives, or a loop that is not ours."""

import logging
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import torch

from elastic_runtime import parameter_checks, script_checks, session_checks
from elastic_runtime.messages import Failed
from elastic_runtime.training.generation_change import GenerationChange
from elastic_runtime.training.parts import Parts
from elastic_runtime.training.state import FOREVER
from elastic_runtime.training.step import Step
from elastic_runtime.training.transaction import Outcome, StepTransaction

log = logging.getLogger(__name__)
STEPS = "session.steps"
BEGIN = "session.begin"
_models_in_a_loop = weakref.WeakSet[torch.nn.Module]()


@dataclass
class _Running:
    """What lasts from the first step to the end of the loop. `end` may be called again."""

    parts: Parts
    until: int
    undo: ExitStack
    # In flight.
    step: Step | None = None

    def leave(self) -> None:
        """The script has ended before the loop, or has dropped its session."""
        message = script_checks.STEP_LEFT_OPEN if self.step else script_checks.END_NOT_REACHED
        _log_unless_failed(message, self.parts.state.step)
        self.undo.close()


class StepLoop:
    """`begin` and `commit` in turn, until `begin` returns None. A generator calls `start` first."""

    def __init__(
        self, parts: Parts, transaction: StepTransaction, generations: GenerationChange
    ) -> None:
        self._parts = parts
        self._transaction = transaction
        self._generations = generations
        # As the session was created: later a strategy may replace the parameters. Empty once the
        # loop has begun: they would keep a whole model in memory that is sharded.
        self._places = script_checks.parameter_places(parts.state.model)
        # Which call drives the loop; empty before its first step.
        self._driver = ""
        # None before the first step, and after the end.
        self._running: _Running | None = None
        # With an agent, which takes a script without a session for one that is no worker. Else
        # a session may be dropped, such as in a notebook.
        self._when_left: weakref.finalize[..., StepLoop] | None = None
        if link := parts.lifecycle.link:
            self._when_left = weakref.finalize(self, _report_unused, link.send, os.getpid())
        self._has_failed = False
        # The generation whose ranks were ordered to join the next one; -1 if none were.
        self._left_generation = -1
        self._until = FOREVER

    # --- driven by a generator --------------------------------------------------------------------

    def steps(self, until: int) -> Iterator[Step]:
        """See `Session.steps`."""
        self._check_start(STEPS)
        try:
            self._start(STEPS, until)
            while step := self._next():
                try:
                    yield step
                except GeneratorExit:
                    # By a break, or by an exception, which prints its own lines at the script's
                    # end: so it is logged then. A script has its model for as long.
                    message = script_checks.LOOP_LEFT_EARLY
                    model = self._parts.state.model
                    weakref.finalize(model, _log_unless_failed, message, step.number, until)
                    raise
                self._commit()
        finally:
            self._end()

    # --- driven from outside ----------------------------------------------------------------------

    def begin(self, until: int | None) -> Step | None:
        """See `Session.begin`."""
        try:
            if self._driver:
                script_checks.raise_mistakes(self._begin_mistakes(until))
            else:
                self._check_start(BEGIN)
                self._start(BEGIN, until)
            step = self._next() if self._running else None
        except BaseException:
            self._fail()
            raise
        if step is None:
            self._end()
        return step

    def commit(self) -> bool:
        """See `Session.commit`."""
        try:
            script_checks.raise_mistakes(self._commit_mistakes())
            return self._commit()
        except BaseException:
            self._fail()
            raise

    def _begin_mistakes(self, until: int | None) -> Iterator[str]:
        if self._driver == STEPS:
            yield script_checks.TWO_LOOPS
        elif self._has_failed:
            yield script_checks.LOOP_FAILED
        elif until not in (None, self._until):
            yield script_checks.OTHER_END % (until, _call(BEGIN, self._until))
        elif self._running and self._running.step:
            yield script_checks.BEGIN_TWICE % self._running.step.number

    def _commit_mistakes(self) -> Iterator[str]:
        if self._driver == STEPS:
            yield script_checks.TWO_LOOPS
        elif self._has_failed:
            yield script_checks.LOOP_FAILED
        elif not self._running or not self._running.step:
            yield script_checks.COMMIT_WITHOUT_BEGIN

    def _fail(self) -> None:
        """An error ends the loop, as it ends a generator."""
        self._has_failed = bool(self._driver)
        self._end()

    # --- one loop ---------------------------------------------------------------------------------

    def _check_start(self, driver: str) -> None:
        """Raises Mistake for what is wrong in the script so far."""
        parts = self._parts
        model = parts.state.model
        if self._driver:
            is_same = self._driver == driver
            script_checks.raise_mistakes(
                [script_checks.SECOND_LOOP if is_same else script_checks.TWO_LOOPS]
            )
        script_checks.raise_mistakes(
            script_checks.start_mistakes(
                self._places,
                script_checks.parameter_places(model),
                has_data=bool(parts.state.data.samples or self._transaction.streams),
                trains_elsewhere=model in _models_in_a_loop,
            )
        )
        self._places = []
        # Here, since the script may compile a module after it has created the session.
        script_checks.raise_mistakes(session_checks.compiled_mistakes(model))
        script_checks.raise_mistakes(script_checks.stateful_mistakes(parts.state.stateful))

    def _start(self, driver: str, until: int | None) -> None:
        """Join the job."""
        if self._when_left:
            self._when_left.detach()
        self._driver = driver
        self._until = FOREVER if until is None else until
        self._transaction.until = self._until
        self._enter()
        self._generations.join_first()
        for warning in self._warnings():
            self._parts.warn_once(warning)

    def _enter(self) -> None:
        parts = self._parts
        transaction = self._transaction
        model = parts.state.model
        undo = ExitStack()
        _models_in_a_loop.add(model)
        undo.callback(_models_in_a_loop.discard, model)
        undo.callback(parts.strategy.detach)
        undo.enter_context(
            parameter_checks.no_optimizer_step(
                model, lambda: transaction.gradients_reduced, parts.warn_once
            )
        )
        undo.enter_context(parts.state.loss_scaling.no_calls())
        self._running = _Running(parts, self._until, undo)
        if self._driver == BEGIN:
            # A generator learns of it by GeneratorExit.
            self._when_left = weakref.finalize(self, self._running.leave)

    def _next(self) -> Step | None:
        """The next step, or the same again; None when the last one is committed and saved."""
        assert self._running
        while True:
            if self._left_generation == self._parts.lifecycle.generation:
                # Not in `commit`: a rank that joins begins this step, so it would miss what the
                # others do before, such as an evaluation. That may have brought the resize already.
                self._left_generation = -1
                self._generations.resize()
            if not self._parts.state.is_last_step(self._until):
                self._running.step = self._transaction.begin()
                return self._running.step
            if self._generations.finish():
                return None

    def _commit(self) -> bool:
        assert self._running
        step = self._running.step
        assert step
        step.check_finished()
        match self._transaction.commit(step):
            case Outcome.FAILED:
                self._generations.recover()
            case Outcome.RESIZE:
                self._left_generation = self._parts.lifecycle.generation
        self._running.step = None
        # A failed step was committed after all if another rank had committed it; and a rank without
        # a copy may take all of them back.
        return self._parts.state.step > step.number

    def _end(self) -> None:
        if self._running:
            self._running.undo.close()
            self._running = None
        if self._when_left:
            self._when_left.detach()

    def _warnings(self) -> Iterator[str]:
        state = self._parts.state
        if script_checks.has_unknown_scheduler(state.optimizers, state.lr_schedulers):
            yield script_checks.UNKNOWN_SCHEDULER
        if any(isinstance(module, torch.nn.SyncBatchNorm) for module in state.model.modules()):
            yield script_checks.SYNC_BATCH_NORM
        # A script that only evaluates has no steps.
        if self._until > 0 and state.is_last_step(self._until):
            yield script_checks.NOTHING_TO_DO % (state.step, _call(self._driver, self._until))


def _report_unused(send: Callable[[Failed], None], worker: int) -> None:
    """The script has ended, or has dropped its session, without a step. `worker`: its process."""
    if os.getpid() != worker or hasattr(sys, "last_value"):
        # A process that the script has started, or an exception, which was reported.
        return
    log.error(script_checks.NEVER_BEGAN)
    # Another exit code than 0 may have another cause, which may heal.
    with suppress(OSError):
        send(Failed(script_checks.NEVER_BEGAN, may_heal=True))


def _log_unless_failed(message: str, *numbers: int) -> None:
    """An exception that ended the script has its own lines."""
    if not hasattr(sys, "last_value"):
        log.error(message, *numbers)


def _call(name: str, until: int) -> str:
    """As the script wrote it."""
    return f"{name}()" if until == FOREVER else f"{name}({until})"
