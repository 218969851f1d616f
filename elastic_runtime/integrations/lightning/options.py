"""What a script chose when it called `fit`, beside the options of its session."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader

from elastic_runtime.integrations.epochs import Epochs
from elastic_runtime.integrations.lightning.loop import Plan

# By Lightning's names.
PRECISIONS = {
    "32-true": None,
    "32": None,
    "bf16-mixed": torch.bfloat16,
    "16-mixed": torch.float16,
}


@dataclass(frozen=True)
class Options:
    """See `fit`."""

    micro_batches: int
    max_epochs: int | None
    max_steps: int | None
    validate_every: int
    check_val_every_n_epoch: int
    log_every_n_steps: int
    gradient_clip_val: float | None
    precision: Any

    def mistakes(self) -> Iterator[str]:
        if self.max_epochs is None and self.max_steps is None:
            yield "fit needs an end: give it max_epochs or max_steps"
        if str(self.precision) not in PRECISIONS:
            yield f"precision is {self.precision!r}: use one of {', '.join(PRECISIONS)}"

    def plan(self, loader: "DataLoader[Any]") -> Plan:
        """`loader`: of the training, whose batches are micro-batches."""
        samples = len(loader.dataset)  # type: ignore[arg-type]  # it has a length, which its type does not show
        epochs = Epochs(samples, self.micro_batches * int(loader.batch_size or 1))
        ends = [self.max_steps, None if self.max_epochs is None else epochs.steps(self.max_epochs)]
        return Plan(
            min(end for end in ends if end is not None),
            epochs,
            self.validate_every,
            self.check_val_every_n_epoch,
            self.log_every_n_steps,
            # With 0 Lightning clips nothing.
            self.gradient_clip_val or None,
        )

    def autocast(self, device: torch.device) -> Callable[[], AbstractContextManager[Any]]:
        dtype = PRECISIONS[str(self.precision)]
        if dtype is None:
            return nullcontext
        return lambda: torch.autocast(device.type, dtype=dtype)

    def grad_scaler(self, device: torch.device) -> torch.amp.GradScaler | None:
        is_half = PRECISIONS[str(self.precision)] is torch.float16
        return torch.amp.GradScaler(device.type) if is_half else None
