"""The loop of `fit`: steps, and what is between two of them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from lightning_utilities.core.rank_zero import rank_zero_only

from elastic_runtime.data import batch_assignment
from elastic_runtime.data.map_dataset import Loader
from elastic_runtime.integrations.lightning import mistakes
from elastic_runtime.integrations.lightning.hooks import Hooks, call_step
from elastic_runtime.integrations.lightning.optimizers import Plateau
from elastic_runtime.integrations.lightning.trainer import Trainer
from elastic_runtime.integrations.lightning.validation import Validation
from elastic_runtime.mistake import Mistake
from elastic_runtime.session import Session
from elastic_runtime.training.step import Step


@dataclass(frozen=True)
class Plan:
    """When the job ends, in steps, and what happens at which of them."""

    until: int
    steps_per_epoch: int
    # Steps; 0: see the next.
    validate_every: int
    validate_every_epochs: int
    log_every: int
    clip: float | None

    def ends_epoch(self, step: int) -> bool:
        return step > 0 and step % self.steps_per_epoch == 0

    def validates(self, step: int) -> bool:
        every = self.validate_every or self.steps_per_epoch * self.validate_every_epochs
        return step > 0 and step % every == 0


class Progress:
    """After which step callbacks were last called. A part of the state: it happens once."""

    def __init__(self) -> None:
        self.step = 0

    def state_dict(self) -> dict[str, int]:
        return {"step": self.step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.step = state["step"]


@dataclass(frozen=True)
class Best:
    """Of which value the best state is kept."""

    monitor: str
    lower_is_better: bool


@dataclass
class Loop:
    session: Session
    loader: Loader
    plan: Plan
    trainer: Trainer
    hooks: Hooks
    validation: Validation
    progress: Progress
    best: Sequence[Best]
    plateaus: Sequence[Plateau]
    autocast: Callable[[], AbstractContextManager[Any]]
    # The epoch whose first step has begun in this process.
    _epoch: int = -1

    def run(self) -> None:
        while step := self.session.begin(self.plan.until):
            self._between(step.number)
            self._begin_epoch(step.number // self.plan.steps_per_epoch)
            self._train(step)
            self.session.commit()
        self._between(self.session.step)
        self.hooks.call("on_train_end")

    def _begin_epoch(self, epoch: int) -> None:
        if self._epoch < 0:
            self.hooks.call("on_train_start")
        self.trainer.current_epoch = epoch
        if epoch != self._epoch:
            self._epoch = epoch
            self.hooks.call("on_train_epoch_start")

    # --- a step -----------------------------------------------------------------------------------

    def _train(self, step: Step) -> None:
        session = self.session
        self.trainer.logged.begin_step()
        first = batch_assignment.owned(session.rank, session.world, session.micro_batches).start
        in_epoch = step.number % self.plan.steps_per_epoch * session.micro_batches
        for number, batch in enumerate(self.loader.batches(step), first):
            with self.trainer.logged.training():
                self._train_on(step, self.hooks.on_device(batch), in_epoch + number)
        if self.plan.clip is not None:
            step.clip(self.plan.clip)

    def _train_on(self, step: Step, batch: Any, batch_idx: int) -> None:
        self.hooks.call("on_train_batch_start", batch, batch_idx)
        with self.autocast():
            returned = call_step(self.hooks.module.training_step, batch, batch_idx)
        outputs = returned if isinstance(returned, dict) else {"loss": returned}
        loss = outputs.get("loss")
        if not isinstance(loss, torch.Tensor):
            raise Mistake(mistakes.NO_LOSS % (type(returned).__name__, batch_idx))
        self.trainer.logged.note_loss(loss)
        step.backward(loss)
        outputs = outputs | {"loss": loss.detach()}
        self.hooks.call("on_train_batch_end", outputs, batch, batch_idx)

    # --- between two steps ------------------------------------------------------------------------

    def _between(self, step: int) -> None:
        """`step` steps are committed. It may run again for the same number."""
        # For loggers and `self.print`.
        rank_zero_only.rank = self.session.rank
        values = self.trainer.logged.count(step, self.session.loss)
        if step % self.plan.log_every == 0:
            self._write(values, step)
        ends_epoch = self.plan.ends_epoch(step)
        validates = self.plan.validates(step)
        # An epoch that ends is the current one until its hooks are through.
        self.trainer.current_epoch = step // self.plan.steps_per_epoch - int(ends_epoch)
        if validates and not self.validation.run(self.session):
            return
        if validates:
            self._keep_best()
        if self.progress.step < step and (validates or ends_epoch):
            self.progress.step = step
            self._call_once(step, validates=validates, ends_epoch=ends_epoch)

    def _call_once(self, step: int, *, validates: bool, ends_epoch: bool) -> None:
        """Callbacks that count, such as EarlyStopping, and schedulers."""
        if validates:
            self.hooks.call("on_validation_end")
        if ends_epoch:
            self.trainer.logged.end_epoch()
            self.hooks.call("on_train_epoch_end")
            self._step_plateaus(step // self.plan.steps_per_epoch)
        logged = self.trainer.logged
        self._write(logged.metrics | logged.own, step)

    def _keep_best(self) -> None:
        for best in self.best:
            value = self._monitored(best.monitor)
            self.session.keep_best(value, lower_is_better=best.lower_is_better)

    def _step_plateaus(self, epochs: int) -> None:
        for plateau in self.plateaus:
            if epochs % plateau.epochs == 0:
                plateau.scheduler.step(self._monitored(plateau.monitor))

    def _monitored(self, name: str) -> float:
        metrics = self.trainer.logged.metrics
        if name not in metrics:
            raise Mistake(mistakes.UNKNOWN_METRIC % (name, ", ".join(metrics) or "none"))
        return metrics[name]

    def _write(self, values: dict[str, float], step: int) -> None:
        """On the leading worker, to the loggers."""
        if not values or self.session.rank:
            return
        for logger in self.trainer.loggers:
            logger.log_metrics(values | {"epoch": self.trainer.current_epoch}, step=step)
            logger.save()
