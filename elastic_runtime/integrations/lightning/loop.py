"""The loop of `fit`: steps, and what is between two of them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from lightning_utilities.core.rank_zero import rank_zero_only

from elastic_runtime.data import batch_assignment
from elastic_runtime.data.map_dataset import Loader
from elastic_runtime.integrations.after_step import AfterStep
from elastic_runtime.integrations.epochs import Epochs
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
    epochs: Epochs
    # Steps; 0: see the next.
    validate_every: int
    validate_every_epochs: int
    log_every: int
    clip: float | None

    def validates(self, step: int) -> bool:
        if self.validate_every:
            return step % self.validate_every == 0
        return self.epochs.ends(step, self.validate_every_epochs)


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
    after_step: AfterStep
    best: Sequence[Best]
    plateaus: Sequence[Plateau]
    autocast: Callable[[], AbstractContextManager[Any]]
    # The epoch whose first step has begun in this process.
    _epoch: int = -1

    def run(self) -> None:
        while step := self.session.begin(self.plan.until):
            self._follow(step.number, step)
            self._begin_epoch(self.plan.epochs.ended(step.number))
            self._train(step)
            self.session.commit()
        self._follow(self.session.step, None)
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
        in_epoch = self.plan.epochs.place(step.number) * session.micro_batches
        for number, batch in enumerate(self.loader.batches(step), first):
            with self.trainer.logged.training(counts=step.contributes):
                self._train_on(step, self.hooks.on_device(batch), in_epoch + number)
        if self.plan.clip is not None:
            step.clip(self.plan.clip)

    def _train_on(self, step: Step, batch: Any, batch_idx: int) -> None:
        counts = step.contributes
        if counts:
            self.hooks.call("on_train_batch_start", batch, batch_idx)
        with self.autocast():
            returned = call_step(self.hooks.module.training_step, batch, batch_idx)
        outputs = returned if isinstance(returned, dict) else {"loss": returned}
        loss = outputs.get("loss")
        if not isinstance(loss, torch.Tensor):
            raise Mistake(mistakes.NO_LOSS % (type(returned).__name__, batch_idx))
        self.trainer.logged.note_loss(loss)
        step.backward(loss)
        if counts:
            outputs = outputs | {"loss": loss.detach()}
            self.hooks.call("on_train_batch_end", outputs, batch, batch_idx)

    # --- between two steps ------------------------------------------------------------------------

    def _follow(self, step: int, in_flight: Step | None) -> None:
        """What follows `step` committed steps, unless the state has it already."""
        # For loggers and `self.print`.
        rank_zero_only.rank = self.session.rank
        # An epoch that ends is the current one until its hooks are through.
        self.trainer.current_epoch = self.plan.epochs.ended(max(step - 1, 0))
        if self.after_step.step >= step:
            return
        with self.after_step.following(step):
            ends_epoch = self.plan.epochs.ends(step)
            assert self.session.loss is not None
            values = self.trainer.logged.count(self.session.loss)
            if step % self.plan.log_every == 0:
                self._write(values, step)
            validates = self.plan.validates(step)
            has_result = validates and self._validate()
            if in_flight and in_flight.is_superseded:
                # The step comes again.
                return
            if ends_epoch:
                self._end_epoch(step, has_values=has_result or not validates)
            if validates or ends_epoch:
                self._write(self.trainer.logged.metrics | self.trainer.logged.own, step)

    def _validate(self) -> bool:
        """False if there is no result, which `on_validation_end` could read."""
        with self.trainer.in_validation():
            if not self.validation.run(self.session):
                return False
            self._keep_best()
            self.hooks.call("on_validation_end")
            return True

    def _end_epoch(self, step: int, *, has_values: bool) -> None:
        """`has_values`: False if what plateaus monitor was not validated."""
        self.trainer.logged.end_epoch()
        self.hooks.call("on_train_epoch_end")
        if has_values:
            self._step_plateaus(step)

    def _keep_best(self) -> None:
        for best in self.best:
            value = self._monitored(best.monitor)
            self.session.keep_best(value, lower_is_better=best.lower_is_better)

    def _step_plateaus(self, step: int) -> None:
        for plateau in self.plateaus:
            if self.plan.epochs.ends(step, plateau.epochs):
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
