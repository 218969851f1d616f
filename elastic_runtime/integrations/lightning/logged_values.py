"""`self.log` of a module below `fit`: which values are alike on all workers, and which are not."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Number
from typing import Any

import torch

from elastic_runtime.integrations.lightning import mistakes
from elastic_runtime.mistake import Mistake

log = logging.getLogger(__name__)
TRAINING = "training"
VALIDATION = "validation"
VALIDATED = "end of a validation"
LOCAL_ONLY = (
    "self.log(%r) in training_step is of this worker's micro-batches in one step: it cannot be "
    "monitored, and has no mean over an epoch; the loss itself can, and what validation_step logs"
)


def _is_metric(value: Any) -> bool:
    """A Metric of torchmetrics."""
    return callable(getattr(value, "compute", None))


class LoggedValues:
    """What the hooks have logged, and what callbacks may monitor.

    They are a part of the state of the job, so that a worker that joins knows them. A value is
    alike on all workers if it is the loss, or was logged in validation or at its end.
    """

    def __init__(self) -> None:
        # Alike on all workers: by name.
        self.metrics: dict[str, float] = {}
        # Of this worker, logged in a hook between two steps: by name.
        self.own: dict[str, float] = {}
        # Under which names the loss itself is logged; for each: in every step, in every epoch.
        self._loss_names: dict[str, list[bool]] = {}
        # The sum of the losses of this epoch's steps, and how many.
        self._epoch_loss, self._epoch_steps = 0.0, 0
        # Of this worker's micro-batches in the step in flight, and in the last one.
        self._of_step: dict[str, list[torch.Tensor]] = {}
        self._flags: dict[str, list[bool]] = {}
        # Of one micro-batch of a validation; and the metrics that were logged, by name.
        self.sums: dict[str, Any] = {}
        self.metric_objects: dict[str, Any] = {}
        self._suffix, self._batch_size = "", 0
        self._hook = ""
        self._noted = set[str]()

    # --- called by the module ---------------------------------------------------------------------

    def log(
        self,
        name: str,
        value: Any,
        prog_bar: bool = False,
        logger: bool | None = None,
        on_step: bool | None = None,
        on_epoch: bool | None = None,
        reduce_fx: Any = "mean",
        enable_graph: bool = False,
        sync_dist: bool = False,
        sync_dist_group: Any = None,
        add_dataloader_idx: bool = True,
        batch_size: int | None = None,
        metric_attribute: str | None = None,
        rank_zero_only: bool = False,
    ) -> None:
        """In place of LightningModule.log, with the same arguments."""
        if self._hook == VALIDATION:
            suffix = self._suffix if add_dataloader_idx else ""
            self._log_validation(name + suffix, value, reduce_fx, batch_size)
        elif self._hook == TRAINING:
            self._flags[name] = [on_step is not False, bool(on_epoch)]
            self._of_step.setdefault(name, []).append(_as_tensor(name, _computed(value)).detach())
        else:
            values = self.metrics if self._hook == VALIDATED else self.own
            values[name] = float(_as_tensor(name, _computed(value)))

    def _log_validation(
        self, name: str, value: Any, reduce_fx: Any, batch_size: int | None
    ) -> None:
        if _is_metric(value):
            # Its states are summed; it is computed afterwards.
            self.metric_objects[name] = value
            return
        if reduce_fx not in ("mean", "sum", torch.mean, torch.sum):
            raise Mistake(mistakes.REDUCTION % (name, reduce_fx))
        weight = 1 if reduce_fx in ("sum", torch.sum) else batch_size or self._batch_size
        number = _as_tensor(name, value).detach().double()
        self.sums[f"value {name}"] = number * weight
        self.sums[f"weight {name}"] = 0 if reduce_fx in ("sum", torch.sum) else weight

    # --- training ---------------------------------------------------------------------------------

    def begin_step(self) -> None:
        """A step begins, perhaps the same one again."""
        self._of_step = {}

    @contextmanager
    def training(self, *, counts: bool) -> Iterator[None]:
        """One micro-batch. `counts`: its values are those of the step, also after this."""
        of_step = self._of_step
        if not counts:
            self._of_step = {}
        self._hook = TRAINING
        try:
            yield
        finally:
            self._hook = ""
            self._of_step = of_step

    def note_loss(self, loss: torch.Tensor) -> None:
        """What `training_step` returned: names whose value is the loss are those of all workers."""
        for name, values in self._of_step.items():
            if values[-1].data_ptr() == loss.data_ptr():
                self._loss_names[name] = self._flags[name]
            elif name not in self._noted and (self._flags[name][1]):
                self._noted.add(name)
                log.warning(LOCAL_ONLY, name)

    def count(self, loss: float) -> dict[str, float]:
        """The values to log of a committed step."""
        self._epoch_loss += loss
        self._epoch_steps += 1
        values = {
            name: float(torch.stack(values).mean())
            for name, values in self._of_step.items()
            if self._flags[name][0] and name not in self._loss_names
        }
        for name, (on_step, on_epoch) in self._loss_names.items():
            if on_step:
                self.metrics[f"{name}_step" if on_epoch else name] = loss
                values[f"{name}_step" if on_epoch else name] = loss
        return values

    def end_epoch(self) -> dict[str, float]:
        """The means over the epoch that ends."""
        values = dict[str, float]()
        for name, (on_step, on_epoch) in self._loss_names.items():
            if on_epoch and self._epoch_steps:
                values[name] = self._epoch_loss / self._epoch_steps
                if on_step:
                    values[f"{name}_epoch"] = values[name]
        self._epoch_loss, self._epoch_steps = 0.0, 0
        self.metrics |= values
        return values

    # --- validation -------------------------------------------------------------------------------

    @contextmanager
    def validation(self, samples: int, suffix: str) -> Iterator[None]:
        """One micro-batch, whose sums are `sums`. `suffix`: of names, by data."""
        self._hook = VALIDATION
        self._suffix, self._batch_size = suffix, samples
        self.sums, self.metric_objects = {}, {}
        try:
            yield
        finally:
            self._hook = ""

    @contextmanager
    def validated(self) -> Iterator[None]:
        """A validation has ended, and metrics have the sums over all workers."""
        self._hook = VALIDATED
        try:
            yield
        finally:
            self._hook = ""

    def take(self, sums: dict[str, Any]) -> None:
        """The means over all micro-batches of a validation."""
        for key, value in sums.items():
            kind, _, name = key.partition(" ")
            if kind == "value":
                self.metrics[name] = float(value) / (float(sums[f"weight {name}"]) or 1.0)

    # --- a part of the state ----------------------------------------------------------------------

    def read(self) -> dict[str, Any]:
        return {
            "metrics": dict(self.metrics),
            "loss_names": {name: list(flags) for name, flags in self._loss_names.items()},
            "epoch": [self._epoch_loss, self._epoch_steps],
        }

    def write(self, state: dict[str, Any]) -> None:
        """What `read` returned."""
        self.metrics = dict(state["metrics"])
        self._loss_names = {name: list(flags) for name, flags in state["loss_names"].items()}
        self._epoch_loss, self._epoch_steps = state["epoch"]


def _computed(value: Any) -> Any:
    return value.compute() if _is_metric(value) else value


def _as_tensor(name: str, value: Any) -> torch.Tensor:
    """(), of one number."""
    is_number = isinstance(value, Number) and not isinstance(value, complex)
    if not is_number and not (isinstance(value, torch.Tensor) and value.numel() == 1):
        raise Mistake(mistakes.NOT_A_NUMBER % (name, type(value).__name__))
    return torch.as_tensor(value).reshape(())
