"""What a Trainer has done so far, as plain data."""

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from transformers.trainer_callback import ExportableState

# Of TrainerState, beside its history; the rest follows from the arguments and from the worker.
FIELDS = (
    "global_step",
    "epoch",
    "best_metric",
    "best_global_step",
    "best_model_checkpoint",
)


class Progress:
    """Of one Trainer.

    `learning_rate`: that of the next step. `seconds`: how long the job has trained. `stops`: a
    callback has asked that the job ends.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.learning_rate = 0.0
        self.seconds = 0.0
        self.stops = False

    def add_loss(self, loss: float | None) -> None:
        """Of a step. What is not finite counts as the mean of the others, if the user wants it."""
        assert loss is not None
        trainer = self._trainer
        if trainer.args.logging_nan_inf_filter and not math.isfinite(loss):
            steps = trainer.state.global_step - trainer._globalstep_last_logged
            loss = float(trainer._tr_loss) / (1 + steps)
        trainer._tr_loss += loss

    def write(self, loaded: Mapping[str, Any]) -> None:
        """What `read` returned."""
        trainer = self._trainer
        for name, value in loaded["state"].items():
            setattr(trainer.state, name, value)
        saved = list(loaded["callbacks"])
        for callback in self._callbacks():
            # By name, as Trainer does: another run may have other callbacks.
            kind = type(callback).__name__
            index = next((i for i, (name, _) in enumerate(saved) if name == kind), None)
            attributes = saved.pop(index)[1] if index is not None else {}
            for name, value in attributes.items():
                setattr(callback, name, value)
        trainer._tr_loss = torch.tensor(loaded["loss"], dtype=torch.float64)
        trainer._total_loss_scalar = loaded["total_loss"]
        trainer._globalstep_last_logged = loaded["last_logged"]
        self.learning_rate = loaded["learning_rate"]
        self.seconds = loaded["seconds"]
        self.stops = loaded["stops"]

    def _callbacks(self) -> list[Any]:
        callbacks = self._trainer.callback_handler.callbacks
        return [callback for callback in callbacks if isinstance(callback, ExportableState)]

    def read(self) -> dict[str, Any]:
        """Does not change when the Trainer goes on, which only adds to its history."""
        trainer = self._trainer
        callbacks = [
            [type(callback).__name__, callback.state()["attributes"]]
            for callback in self._callbacks()
        ]
        fields = {name: getattr(trainer.state, name) for name in FIELDS}
        return {
            "state": fields | {"log_history": list(trainer.state.log_history)},
            "callbacks": deepcopy(callbacks),
            "loss": float(trainer._tr_loss),
            "total_loss": trainer._total_loss_scalar,
            "last_logged": trainer._globalstep_last_logged,
            "learning_rate": self.learning_rate,
            "seconds": self.seconds,
            "stops": self.stops,
        }
