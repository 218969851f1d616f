"""Trainer's evaluation, shared by all workers of a job."""

import math
from typing import Any

import numpy
import torch
from transformers import EvalPrediction
from transformers.trainer_pt_utils import EvalLoopContainer, find_batch_size
from transformers.trainer_utils import EvalLoopOutput, denumpify_detensorize

from elastic_runtime.session import Session
from elastic_runtime.training.evaluation import contributes

# Of predictions, labels, losses and inputs of different lengths.
PADDING = -100


class Evaluation:
    """Of one dataset. `loss_only`: predictions are not needed. `is_complete`: it has a result."""

    def __init__(
        self, trainer: Any, dataloader: Any, *, loss_only: bool, ignore_keys: list[str] | None
    ) -> None:
        self._session: Session = trainer.session
        self._trainer = trainer
        self._dataset = dataloader.dataset
        self._collate = dataloader.collate_fn
        self._needs_predictions = trainer.compute_metrics is not None and not loss_only
        self._ignore_keys = ignore_keys
        self.is_complete = False
        trainer.callback_handler.eval_dataloader = dataloader

    def run(self, prefix: str) -> EvalLoopOutput:
        """As `Trainer.evaluation_loop`, alike on every worker."""
        sums = self._session.evaluate(
            self._dataset,
            self._sums_of,
            micro_batch_size=self._trainer.args.eval_batch_size,
            collate_fn=self._collate,
        )
        # One that could not end, as when the job is stopped meanwhile, has no metrics.
        self.is_complete = sums.is_complete
        metrics: dict[str, Any] = {}
        predictions = None
        if self._needs_predictions and sums.is_complete:
            predictions = self._prediction_of(sums["outputs"])
            metrics = denumpify_detensorize(self._trainer.compute_metrics(predictions))
        if sums["samples_with_loss"]:
            metrics["loss"] = sums["loss"] / (sums["samples_in_loss"] or math.nan)
        return EvalLoopOutput(
            predictions=predictions and predictions.predictions,
            label_ids=predictions and predictions.label_ids,
            metrics={_prefixed(name, prefix): value for name, value in metrics.items()},
            num_samples=len(self._dataset),
        )

    def _sums_of(self, inputs: Any) -> dict[str, Any]:
        """Of one micro-batch."""
        trainer = self._trainer
        loss, logits, labels = trainer.prediction_step(
            trainer.model_wrapped, inputs, not self._needs_predictions, self._ignore_keys
        )
        if contributes(self._session):
            trainer.control = trainer.callback_handler.on_prediction_step(
                trainer.args, trainer.state, trainer.control
            )
        count = find_batch_size(inputs)
        value = math.nan if loss is None else float(loss)
        is_counted = math.isfinite(value) or not trainer.args.logging_nan_inf_filter
        sums = {
            "loss": value * count if is_counted else 0.0,
            "samples_in_loss": count if is_counted else 0,
            "samples_with_loss": 0 if loss is None else count,
        }
        if self._needs_predictions:
            outputs = self._outputs(inputs, count, loss, logits, labels)
            return sums | {"outputs": {"of batch": outputs}}
        return sums

    # --- predictions ------------------------------------------------------------------------------

    def _outputs(self, inputs: Any, count: int, loss: Any, logits: Any, labels: Any) -> list[Any]:
        """What compute_metrics needs of a micro-batch: predictions, labels, losses and inputs."""
        trainer = self._trainer
        wanted = trainer.args.include_for_metrics
        if trainer.preprocess_logits_for_metrics is not None and logits is not None:
            logits = trainer.preprocess_logits_for_metrics(logits, labels)
        has_losses = "loss" in wanted and loss is not None
        name = getattr(trainer.model, "main_input_name", "input_ids")
        return _as_tensors(
            [
                logits,
                labels,
                loss.repeat(count) if has_losses else None,
                inputs[name] if "inputs" in wanted else None,
            ]
        )

    def _prediction_of(self, collected: list[dict[str, Any]]) -> EvalPrediction:
        columns = [
            EvalLoopContainer(self._trainer.args.eval_do_concat_batches, PADDING) for _ in range(4)
        ]
        for outputs in collected:
            for column, output in zip(columns, outputs["of batch"], strict=True):
                if output is not None:
                    column.add(output)
        predictions, labels, losses, inputs = (column.get_arrays() for column in columns)
        return EvalPrediction(
            predictions=predictions, label_ids=labels, losses=losses, inputs=inputs
        )


def _as_tensors(value: Any) -> Any:
    """With tensors in place of arrays, in nested tuples, lists and dicts."""
    if isinstance(value, numpy.ndarray):
        return torch.from_numpy(value)
    if isinstance(value, list | tuple):
        return type(value)(_as_tensors(part) for part in value)
    if isinstance(value, dict):
        return {key: _as_tensors(part) for key, part in value.items()}
    return value


def _prefixed(name: str, prefix: str) -> str:
    return name if name.startswith(f"{prefix}_") else f"{prefix}_{name}"
