"""What modules and callbacks read of Lightning's Trainer while `fit` trains."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from elastic_runtime.integrations.epochs import Epochs
from elastic_runtime.integrations.lightning.logged_values import LoggedValues
from elastic_runtime.mistake import Mistake
from elastic_runtime.session import Session


class MissingAttribute(Mistake, AttributeError):
    """Lightning's Trainer has it, and this one does not."""


class Trainer:
    """`module.trainer`. Anything that is not here raises MissingAttribute.

    Attributes:
        num_training_batches: micro-batches of an epoch, over all workers; some epochs have those of
            one step less, since a batch continues in the next epoch.
        validating: a validation runs. A stop in it ends the job when it is complete.
        accumulate_grad_batches: micro-batches of a step, over all workers.
    """

    fast_dev_run = False
    sanity_checking = False
    validating = False
    barebones = False
    training = True
    progress_bar_callback = None
    val_check_interval = 1.0
    state = SimpleNamespace(fn="fit")

    def __init__(
        self,
        module: Any,
        datamodule: Any,
        logged: LoggedValues,
        loggers: Sequence[Any],
        micro_batches: int,
    ) -> None:
        self.logged = logged
        self._is_stopping = False
        self.session: Session | None = None
        self.lightning_module = self.model = module
        self.datamodule = datamodule
        self.loggers = list(loggers)
        self.accumulate_grad_batches = micro_batches
        self.check_val_every_n_epoch = 1
        self.current_epoch = 0
        self.optimizers: list[torch.optim.Optimizer] = []
        self.callbacks: list[Any] = []
        self.lr_scheduler_configs: list[Any] = []

    def set_length(self, max_steps: int, epochs: Epochs) -> None:
        """Known after `setup`, which may change the data."""
        self.max_steps = self.estimated_stepping_batches = max_steps
        self.max_epochs = math.ceil(epochs.used(max_steps))
        self.num_training_batches = epochs.steps(1) * self.accumulate_grad_batches

    def set_optimizers(self, optimizer: torch.optim.Optimizer, schedulers: Sequence[Any]) -> None:
        self.optimizers = [optimizer]
        self.lr_scheduler_configs = [
            SimpleNamespace(scheduler=scheduler) for scheduler in schedulers
        ]

    @property
    def strategy(self) -> SimpleNamespace:
        return SimpleNamespace(
            # Decisions follow from values that are alike on all workers.
            reduce_boolean_decision=lambda decision, all=True: decision,
            # Of `self.optimizers()`.
            _lightning_optimizers=self.optimizers,
        )

    def __getattr__(self, name: str) -> Any:
        raise MissingAttribute(
            f"trainer.{name} does not exist, because fit trains without Lightning's Trainer: "
            "docs/frameworks.md lists what does"
        )

    @property
    def logger(self) -> Any:
        return self.loggers[0] if self.loggers else None

    @property
    def global_step(self) -> int:
        """Committed steps."""
        return self.session.step if self.session else 0

    @property
    def global_rank(self) -> int:
        return self.session.rank if self.session else 0

    @property
    def local_rank(self) -> int:
        return self.session.local_rank if self.session else 0

    @property
    def world_size(self) -> int:
        """It changes. ValueError before the first step."""
        if self.session is None:
            raise Mistake(
                "trainer.world_size is known in the loop only, and changes: compute with "
                "trainer.estimated_stepping_batches, which is the same at every size"
            )
        return self.session.world

    @property
    def is_global_zero(self) -> bool:
        return self.global_rank == 0

    @property
    def callback_metrics(self) -> dict[str, torch.Tensor]:
        """What may be monitored: it is alike on all workers."""
        return {name: torch.tensor(value) for name, value in self.logged.metrics.items()}

    @property
    def should_stop(self) -> bool:
        return self._is_stopping

    @should_stop.setter
    def should_stop(self, value: bool) -> None:
        self._is_stopping = value
        if value and self.session and not self.validating:
            self.session.stop()

    @contextmanager
    def in_validation(self) -> Iterator[None]:
        """Inside, `should_stop` waits: a stop would end the validation without a result."""
        self.validating = True
        try:
            yield
        finally:
            self.validating = False
            self.should_stop = self._is_stopping
