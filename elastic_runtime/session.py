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

    A step has `micro_batches` micro-batches of `micro_batch_size` samples at every size of the job.

    `samples`: size of the dataset. Not needed with `loader` or `streams`.
    `seed`: decides on the order of samples and on random draws.
    `checkpoint`: a directory that all pods share. The state is saved there every `save_every` steps
    (0: never), and on request, after a shrink and before a stop.
    `local_checkpoint`: a directory on each pod's own disk. Every `local_save_every` steps each pod
    saves its part there.
    `lr_schedulers`: the session steps each when a step is committed; do not step them yourself.
    `stateful`: other objects with a state_dict that are saved and sent with the state.
    `journal`: a directory for a log of every step and every sample used.
    `strategy`: how the model is spread over the ranks: Replicated (default), Sharded or
    Deterministic.

    `loss`, `gradient_norm`: of the last committed step, over all its micro-batches. The norm is
    None unless the script called `step.clip`.

    In a script that runs without an agent (`python train.py`) it is a job of one. Raises ValueError
    that names every mistake in the arguments.
    """

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
        """Raises ValueError before the loop over steps, as `world`."""
        return self._parts.lifecycle.rank_and_world[0]

    @property
    def world(self) -> int:
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
        return self._state.loss

    @property
    def gradient_norm(self) -> float | None:
        return self._state.gradient_norm

    @property
    def samples(self) -> int:
        return self._state.data.samples

    # --- data -------------------------------------------------------------------------------------

    def loader(self, dataset: Indexed, **options: Any) -> Loader:
        """Micro-batches of a map-style dataset (data/map_dataset.py).

        `options`: DataLoader's, such as num_workers, collate_fn and pin_memory.
        """
        loader = Loader(self, dataset, **options)
        self._state.data.samples = loader.samples
        return loader

    def streams(self, open_stream: OpenStream, **options: Any) -> Streams:
        """Micro-batches of data that can only be read in sequence (data/streams.py).

        `options`: `collate_fn`.
        """
        streams = Streams(self, open_stream, **options)
        self._transaction.streams = streams
        self._state.stateful.append(streams)
        return streams

    # --- steps ------------------------------------------------------------------------------------

    def steps(self, until: int) -> Iterator[Step]:
        """Yields the steps that remain until the job has committed `until` of them.

        The body of the loop computes gradients; the session commits the step when the body ends. If
        a rank was lost, the same step comes again. Raises ValueError for mistakes in the script.
        """
        has_data = bool(self.samples or self._transaction.streams)
        places = script_checks.parameter_places(self.model)
        script_checks.raise_mistakes(
            script_checks.start_mistakes(
                self._places,
                places,
                has_data=has_data,
                trains_elsewhere=self.model in _models_in_a_loop,
            )
        )
        self._places = None
        script_checks.raise_mistakes(script_checks.stateful_mistakes(self._state.stateful))
        if script_checks.has_unknown_scheduler(self.optimizer, self._state.lr_schedulers):
            log.warning(script_checks.UNKNOWN_SCHEDULER)
        if any(isinstance(module, torch.nn.SyncBatchNorm) for module in self.model.modules()):
            log.warning(script_checks.SYNC_BATCH_NORM)
        _models_in_a_loop.add(self.model)
        transaction = self._transaction
        try:
            with parameter_checks.no_optimizer_step(
                self.model, lambda: transaction.gradients_reduced, log.warning
            ):
                yield from self._loop(until)
        finally:
            self.strategy.detach()
            _models_in_a_loop.discard(self.model)

    def _loop(self, until: int) -> Iterator[Step]:
        self._transaction.until = until
        self._generations.join_first()
        if self._state.is_last_step(until):
            log.warning(script_checks.NOTHING_TO_DO, self.step, until)
        while True:
            while not self._state.is_last_step(until):
                yield from self._step(until)
            if self._generations.finish():
                return

    def stop(self) -> None:
        """End the job early: the step in flight is the last, on all ranks.

        The state is saved, and the script goes on behind its loop. Call it inside the loop, on one
        rank or several, and let the body run to its end. The same script, started again, ends at
        once; with a larger `until` it trains on.
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
            case Outcome.COMMITTED:
                pass
