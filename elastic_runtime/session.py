"""The session of a training script: it hands out steps, and the micro-batches of each.

    session = Session(model, optimizer, samples=len(data), micro_batches=16, micro_batch_size=4)
    for step in session.steps(1000):
        for batch in step:
            step.backward(loss_of(model, data, batch.indices))

A step is a transaction (training/transaction.py), so a fault costs only the step in flight. Between
two steps the job may change its size (training/generation_change.py).
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from elastic_runtime import messages, script_checks, session_checks
from elastic_runtime.data import given_data
from elastic_runtime.data.map_dataset import Indexed
from elastic_runtime.data.streams import OpenStream
from elastic_runtime.json_logging import log_for_people, log_to
from elastic_runtime.state.optimizers import Optimizers, by_name
from elastic_runtime.strategies.base import Strategy
from elastic_runtime.strategies.module_buffers import ModuleBuffers
from elastic_runtime.strategies.replicated import Replicated
from elastic_runtime.training.agent_link import connect, warn_in_child
from elastic_runtime.training.deferred_compiler import defer_compiler
from elastic_runtime.training.evaluation import Evaluation, evaluate
from elastic_runtime.training.generation_change import GenerationChange
from elastic_runtime.training.journal import Journal
from elastic_runtime.training.keep_best import keep_best
from elastic_runtime.training.loss_scaling import LossScaling
from elastic_runtime.training.options import CheckpointOptions, DataOptions
from elastic_runtime.training.parts import Parts
from elastic_runtime.training.rank_lifecycle import RankLifecycle
from elastic_runtime.training.session_data import loader, source_of, streams
from elastic_runtime.training.state import TrainingState
from elastic_runtime.training.stateful import LRScheduler, Stateful
from elastic_runtime.training.step import Step
from elastic_runtime.training.step_loop import StepLoop
from elastic_runtime.training.transaction import StepTransaction

# Before the script creates its optimizer.
defer_compiler()


class Session:
    """Joins the job, hands out steps, and follows the job when its membership changes.

    A script that runs without an agent (`python train.py`) is a job of one.

    Args:
        model: on its device, or for Sharded on meta; not wrapped; compiled, saved by plain names.
        optimizer: of the model's parameters; several as a list or by name, which all step when a
            step is committed. Each trained parameter is in one of them.
        micro_batches: of one step, at every size; at least as many as the job will have ranks.
        micro_batch_size: samples of each; by default the batch_size of `data`, or 1.
        data: for `step.data`: a DataLoader, of which the session takes the dataset, batch_size,
            collate_fn and the options of its loader workers; a map-style dataset; or a function
            that opens streams, as `session.streams` takes it.
        samples: size of the dataset; not needed with `data`, `loader` or `streams`.
        seed: decides on the order of samples and on random draws; the same on all workers.
        checkpoint: a directory that all pods share; saved on request, after shrinks, before stops.
        save_every: steps between two further saves; 0: none.
        keep: how many of the newest checkpoints stay.
        keep_every: beside them the first of every so many steps stays; 0: none.
        local_checkpoint: a directory on each pod's own disk, where each pod saves its part.
        local_save_every: steps between two of them; 0: none.
        clip: the norm to which the gradient of each step is clipped, as by `step.clip`.
        lr_schedulers: the session steps each when a step is committed; do not step them yourself.
        stateful: other objects with a state_dict that are saved and sent with the state.
        grad_scaler: torch's GradScaler, for float16; the session applies, updates and saves it.
        journal: a directory for a log of every step and every sample used.
        strategy: how the model is spread over the ranks: Sharded, Deterministic, or replicated.

    Raises:
        ValueError: names every mistake in the arguments.
    """

    @session_checks.checks_arguments("Session")
    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Optimizer | Sequence[Optimizer] | Mapping[str, Optimizer],
        *,
        micro_batches: int,
        micro_batch_size: int | None = None,
        data: DataLoader[Any] | Indexed | OpenStream | None = None,
        samples: int | None = None,
        seed: int = 0,
        checkpoint: str | Path | None = None,
        save_every: int = 0,
        keep: int = 2,
        keep_every: int = 0,
        local_checkpoint: str | Path | None = None,
        local_save_every: int = 0,
        clip: float | None = None,
        lr_schedulers: Sequence[LRScheduler] = (),
        stateful: Sequence[Stateful] = (),
        grad_scaler: torch.amp.GradScaler | None = None,
        journal: str | Path | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        model = session_checks.plain_model(model)
        self.strategy: Strategy = strategy or Replicated()
        # First: an agent learns of mistakes through it.
        link = connect()
        options = CheckpointOptions(
            checkpoint, save_every, local_checkpoint, local_save_every, keep, keep_every
        )
        scaling = LossScaling(grad_scaler)
        size = given_data.micro_batch_size(data, micro_batch_size)
        script_checks.raise_mistakes(
            [
                *(link.job_mistakes(micro_batches) if link else ()),
                *session_checks.session_mistakes(model, optimizer, self.strategy),
                *given_data.mistakes(data, samples, micro_batch_size),
                *session_checks.lr_scheduler_mistakes(lr_schedulers),
                *scaling.mistakes(model, stateful),
                *options.mistakes(),
            ]
        )
        if link:
            link.has_session = True
            log_to(sys.stdout)
        else:
            log_for_people(sys.stderr)
            warn_in_child()
        lifecycle = RankLifecycle(link)
        saver = options.make_saver(lambda **figures: lifecycle.send(messages.Progress(**figures)))
        numbers = DataOptions(int(samples or 0), int(micro_batches), int(size), int(seed))
        self._state = TrainingState(
            model, Optimizers(by_name(optimizer)), lr_schedulers, stateful, numbers, saver, scaling
        )
        self.model = model
        self.device = self._state.device
        self.micro_batches = numbers.micro_batches
        self.micro_batch_size = numbers.micro_batch_size
        self.seed = numbers.seed
        self._parts = Parts(
            self._state,
            self.strategy,
            ModuleBuffers(model),
            saver,
            Journal(Path(journal) if journal else None),
            lifecycle,
        )
        self._transaction = StepTransaction(self._parts)
        self._transaction.max_norm = clip
        self._generations = GenerationChange(self._parts, self._transaction)
        self._evaluation = Evaluation(self._parts, self._transaction, self._generations)
        self._loop = StepLoop(self._parts, self._transaction, self._generations)
        self.strategy.attach(self._state)
        if data is not None:
            self._transaction.source = source_of(self, data)

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
    def optimizer(self) -> Optimizer:
        """The only one. ValueError if there are several, which are in `optimizers`."""
        if len(self.optimizers) > 1:
            script_checks.raise_mistakes([script_checks.SEVERAL_OPTIMIZERS])
        return next(iter(self.optimizers.values()))

    @property
    def optimizers(self) -> dict[str, Optimizer]:
        """By name; without names, by their place in the list: "0", "1"."""
        return dict(self._state.optimizers.by_name)

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
        """Of the last committed step, before it was clipped. None if it was not."""
        return self._state.gradient_norm

    @property
    def samples(self) -> int:
        """Size of the dataset; 0 if samples come from streams."""
        return self._state.data.samples

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
        yield from self._loop.steps(until)

    @session_checks.checks_arguments("session.begin")
    def begin(self, until: int | None = None) -> Step | None:
        """The next step, in place of `steps`, for a loop that belongs to somebody else.

        The first call joins the job. The last one, which returns None, saves the state: let no loop
        end without it.

        Args:
            until: as in `steps`; the same in every call, or only in the first. None: `stop` alone
                ends the job.

        Returns:
            the step, which is the same again after a `commit` that returned False; None when the
            job has ended.

        Raises:
            ValueError: for mistakes in the script.
        """
        return self._loop.begin(until)

    def commit(self) -> bool:
        """Commit the step that `begin` returned, on all ranks or on none.

        Between `commit` and `begin` there is no step in flight: evaluate and log there.

        Returns:
            whether the state has the step; False: a rank was lost, and `begin` returns it again.

        Raises:
            ValueError: for mistakes in the script.
        """
        return self._loop.commit()

    loader = loader
    streams = streams
    evaluate = evaluate
    keep_best = keep_best

    def stop(self) -> None:
        """End the job early: the step in flight is the last, on all ranks, and is saved.

        Call it inside the loop, on one rank or several, and let the body run to its end. Between
        `commit` and `begin` it is the next step. An evaluation that runs ends without a result. The
        same script, started again, ends at once; with a larger `until` it trains on.
        """
        self._transaction.stop_requested = True
