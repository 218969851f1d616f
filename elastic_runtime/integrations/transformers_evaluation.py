"""Trainer's evaluation, shared by all workers of a job."""

import math
from typing import Any

from transformers.trainer_pt_utils import find_batch_size
from transformers.trainer_utils import EvalLoopOutput

from elastic_runtime.mistake import Mistake
from elastic_runtime.session import Session


def evaluate(
    trainer: Any,
    session: Session,
    dataloader: Any,
    loss_only: bool,
    ignore_keys: list[str] | None,
    prefix: str,
) -> EvalLoopOutput:
    """`dataloader`: as Trainer makes it, whose dataset and collator are used."""
    trainer.callback_handler.eval_dataloader = dataloader
    model = trainer.model_wrapped

    def sums_of(inputs: Any) -> dict[str, Any]:
        count = find_batch_size(inputs)
        loss, *_ = trainer.prediction_step(model, inputs, True, ignore_keys=ignore_keys)
        trainer.control = trainer.callback_handler.on_prediction_step(
            trainer.args, trainer.state, trainer.control
        )
        value = math.nan if loss is None else float(loss)
        counts = math.isfinite(value) or not trainer.args.logging_nan_inf_filter
        return {
            "loss": value * count if counts else 0.0,
            "samples_in_loss": count if counts else 0,
            "samples_with_loss": 0 if loss is None else count,
        }

    if trainer.compute_metrics is not None and not loss_only:
        raise Mistake("compute_metrics not done")
    sums = session.evaluate(
        dataloader.dataset,
        sums_of,
        micro_batch_size=trainer.args.eval_batch_size,
        collate_fn=dataloader.collate_fn,
    )
    metrics = {}
    if sums["samples_with_loss"]:
        metrics[f"{prefix}_loss"] = sums["loss"] / (sums["samples_in_loss"] or math.nan)
    return EvalLoopOutput(
        predictions=None, label_ids=None, metrics=metrics, num_samples=len(dataloader.dataset)
    )
