"""The session of a training script: it hands out steps, and the micro-batches of each.

    session = Session(model, optimizer, samples=len(data), micro_batches=16, micro_batch_size=4)
    for step in session.steps(1000):
        for batch in step:
            step.backward(loss_of(model, data, batch.indices))

A step is a transaction (training/transaction.py), so a fault costs only the step in flight. Between
two steps the job may change its size (training/generation_change.py).
"""

import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakSet

import torch

from elastic_runtime import messages, parameter_checks, script_checks, session_checks
from elastic_runtime.data.map_dataset import Indexed, Loader
from elastic_runtime.data.streams import OpenStream, Streams
from elastic_runtime.json_logging import log_for_people, log_to
from elastic_runtime.strategies.base import Strategy
from elastic_runtime.strategies.module_buffers import ModuleBuffers
from elastic_runtime.strategies.replicated import Replicated
from elastic_runtime.training.agent_link import connect
from elastic_runtime.training.deferred_compiler import defer_compiler
from elastic_runtime.training.generation_change import GenerationChange
from elastic_runtime.training.journal import Journal
from elastic_runtime.training.options import CheckpointOptions, DataOptions
from elastic_runtime.training.parts import Parts
from elastic_runtime.training.rank_lifecycle import RankLifecycle
from elastic_runtime.training.state import TrainingState
from elastic_runtime.training.stateful import LRScheduler, Stateful
from elastic_runtime.training.step import Step
from elastic_runtime.training.transaction import Outcome, StepTransaction

log = logging.getLogger(__name__)
_models_in_a_loop = WeakSet[torch.nn.Module]()
# Before the script creates its optimizer.
defer_compiler()


class Session:
    """Joins the job, hands out steps, and follows the job when its membership changes.

    A script that runs without an agent (`python train.py`) is a job of one.

    Args:
        model: the model, on its device and not wrapped; a compiled one is saved by its plain names.
        optimizer: of the model's parameters.
        micro_batches: of one step, at every size; at least as many as the job will have ranks.
        micro_batch_size: samples of each.
        samples: size of the dataset; not needed with `loader` or `streams`.
        seed: decides on the order of samples and on random draws.
        checkpoint: a directory that all pods share; saved on request, after shrinks, before stops.
        save_every: steps between two further saves; 0: none.
        local_checkpoint: a directory on each pod's own disk, where each pod saves its part.
        local_save_every: steps between two of them; 0: none.
        lr_schedulers: the session steps each when a step is committed; do not step them yourself.
        stateful: other objects with a state_dict that are saved and sent with the state.
        journal: a directory for a log of every step and every sample used.
        strategy: how the model is spread over the ranks: Sharded, Deterministic, or replicated.

    Raises:
        ValueError: names every mistake in the arguments.
    """

    @session_checks.checks_arguments("Session")
    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        micro_batches: int,
        micro_batch_size: int = 1,
        samples: int | None = None,
        seed: int = 0,
        checkpoint: str | Path | None = None,
        save_every: int = 0,
        local_checkpoint: str | Path | None = None,
        local_save_every: int = 0,
        lr_schedulers: Sequence[LRScheduler] = (),
        stateful: Sequence[Stateful] = (),
        journal: str | Path | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        model = session_checks.plain_model(model)
        # First: an agent learns of mistakes through it.
        link = connect()
        script_checks.raise_mistakes(
            [
                *session_checks.second_session_mistakes(bool(link and link.has_session)),
                *session_checks.session_mistakes(
                    model, optimizer, samples, micro_batches, micro_batch_size
                ),
                *session_checks.lr_scheduler_mistakes(lr_schedulers),
                *session_checks.save_mistakes(
                    checkpoint, save_every, local_checkpoint, local_save_every
                ),
            ]
        )
        # None once the loop over steps has begun: a strategy may replace the parameters.
        self._places: list[script_checks.ParameterPlace] | None
        self._places = script_checks.parameter_places(model)
        if link:
            link.has_session = True
            log_to(sys.stdout)
        else:
            log_for_people(sys.stderr)
        lifecycle = RankLifecycle(link)
        saver = CheckpointOptions(
            Path(checkpoint) if checkpoint else None,
            save_every,
            Path(local_checkpoint) if local_checkpoint else None,
            local_save_every,
        ).make_saver(lambda **figures: lifecycle.send(messages.Progress(**figures)))
        data = DataOptions(int(samples or 0), int(micro_batches), int(micro_batch_size), int(seed))
        self._state = TrainingState(model, optimizer, lr_schedulers, stateful, data, saver)
        self.model = model
        self.optimizer = optimizer
        self.device = self._state.device
        self.strategy: Strategy = strategy or Replicated()
        self.micro_batches = data.micro_batches
        self.micro_batch_size = data.micro_batch_size
        self.seed = data.seed
        self._parts = Parts(
            self._state,
            self.strategy,
            ModuleBuffers(model),
            saver,
            Journal(Path(journal) if journal else None),
            lifecycle,
        )
        self._transaction = StepTransaction(self._parts)
        self._generations = GenerationChange(self._parts, self._transaction)
        self.strategy.attach(self._state)

    # --- what a script may read -------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """This process's number among those that train; it changes. ValueError before the loop."""
        return self._parts.lifecycle.rank_and_world[0]

    @property
    def world(self) -> int:
        """How many processes train; it changes. ValueError before the loop."""
        return self._parts.lifecycle.rank_and_world[1]

    @property
    def local_rank(self) -> int:
        """The number of this process in its pod."""
        link = self._parts.lifecycle.link
        return link.local_rank if link else 0

    @property
    def generation(self) -> int:
        """Grows with every change of the job's membership."""
        return self._parts.lifecycle.generation

    @property
    def step(self) -> int:
        """Committed steps."""
        return self._state.step

    @property
    def loss(self) -> float | None:
        """Of the last committed step, the mean over all its micro-batches. None before it."""
        return self._state.loss

    @property
    def gradient_norm(self) -> float | None:
        """Of the last committed step, before it was clipped. None without `step.clip`."""
        return self._state.gradient_norm

    @property
    def samples(self) -> int:
        """Size of the dataset; 0 if samples come from streams."""
        return self._state.data.samples

    # --- data -------------------------------------------------------------------------------------

    def loader(self, dataset: Indexed, **options: Any) -> Loader:
        """Micro-batches of a map-style dataset.

        Args:
            dataset: with a length, and samples by index.
            options: DataLoader's, such as num_workers, collate_fn and pin_memory.

        Returns:
            a Loader for the loop over steps.

        Raises:
            ValueError: for an empty dataset, one without a length, and an option that decides on
                the order of samples or on randomness.
        """
        loader = Loader(self, dataset, **options)
        self._state.data.samples = loader.samples
        return loader

    def streams(self, open_stream: OpenStream, **options: Any) -> Streams:
        """Micro-batches of data that can only be read in sequence.

        Args:
            open_stream: called with (number, count, epoch), it returns the samples of that stream.
            options: only `collate_fn`, as DataLoader's.

        Returns:
            Streams for the loop over steps.
        """
        streams = Streams(self, open_stream, **options)
        self._transaction.streams = streams
        self._state.stateful.append(streams)
        return streams

    # --- steps ------------------------------------------------------------------------------------

    @session_checks.checks_arguments("session.steps")
    def steps(self, until: int) -> Iterator[Step]:
        """Yields the steps that remain until the job has committed `until` of them.

        The body of the loop computes gradients; the session commits the step when the body ends. If
        a rank was lost, the same step comes again.

        Args:
            until: in steps of the whole job, those before a restart included.

        Returns:
            an iterator; every rank gets the same steps.

        Raises:
            ValueError: for mistakes in the script.
        """
        script_checks.raise_mistakes(
            script_checks.start_mistakes(
                self._places,
                script_checks.parameter_places(self.model),
                has_data=bool(self.samples or self._transaction.streams),
                trains_elsewhere=self.model in _models_in_a_loop,
            )
        )
        self._places = None
        script_checks.raise_mistakes(script_checks.stateful_mistakes(self._state.stateful))
        _models_in_a_loop.add(self.model)
        transaction = self._transaction
        try:
            with parameter_checks.no_optimizer_step(
                self.model, lambda: transaction.gradients_reduced, self._parts.warn_once
            ):
                yield from self._loop(until)
        finally:
            self.strategy.detach()
            _models_in_a_loop.discard(self.model)

    def _loop(self, until: int) -> Iterator[Step]:
        self._transaction.until = until
        self._generations.join_first()
        for warning in self._warnings(until):
            self._parts.warn_once(warning)
        while True:
            while not self._state.is_last_step(until):
                yield from self._step(until)
            if self._generations.finish():
                return

    def _warnings(self, until: int) -> Iterator[str]:
        if script_checks.has_unknown_scheduler(self.optimizer, self._state.lr_schedulers):
            yield script_checks.UNKNOWN_SCHEDULER
        if any(isinstance(module, torch.nn.SyncBatchNorm) for module in self.model.modules()):
            yield script_checks.SYNC_BATCH_NORM
        if self._state.is_last_step(until):
            yield script_checks.NOTHING_TO_DO % (self.step, until)

    def stop(self) -> None:
        """End the job early: the step in flight is the last, on all ranks, and is saved.

        Call it inside the loop, on one rank or several, and let the body run to its end. The same
        script, started again, ends at once; with a larger `until` it trains on.
        """
        self._transaction.stop_requested = True

    def _step(self, until: int) -> Iterator[Step]:
        step = self._transaction.begin()
        try:
            yield step
        except GeneratorExit:
            log.error(script_checks.LOOP_LEFT_EARLY, self.step, until)
            raise
        step.check_finished()
        match self._transaction.commit(step):
            case Outcome.FAILED:
                self._generations.recover()
            case Outcome.RESIZE:
                self._generations.resize()
