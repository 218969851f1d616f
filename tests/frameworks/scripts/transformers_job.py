"""A script as users write it, whose job the tests disturb: `train.py STEPS SECONDS`."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from transformers import EarlyStoppingCallback, TrainerCallback

from elastic_runtime import Deterministic, Sharded
from elastic_runtime.integrations.transformers import ElasticTrainer
from tests.frameworks import tiny

MICRO_BATCHES = 4
STEPS, SECONDS = int(sys.argv[1]), float(sys.argv[2])


class SlowTrainer(ElasticTrainer):
    def compute_loss(self, *args: Any, **named: Any) -> Any:
        time.sleep(SECONDS)
        return super().compute_loss(*args, **named)


class FirstWorker(TrainerCallback):
    """Writes what is logged where Trainer's own callbacks would."""

    def on_log(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if state.is_world_process_zero:
            with open(f"logs-{os.getpid()}.jsonl", "a") as file:
                file.write(json.dumps(others["logs"] | {"step": state.global_step}) + "\n")


def accuracy(prediction: Any) -> dict[str, float]:
    guessed = prediction.predictions.argmax(-1)[:, :-1]
    expected = prediction.label_ids[:, 1:]
    counts = expected != tiny.IGNORED
    return {"accuracy": float((guessed == expected)[counts].mean())}


def shard(model: Any, mesh: Any) -> None:
    from torch.distributed.fsdp import fully_shard

    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


# The model learns few samples by heart, which makes much of how sums are rounded.
STRATEGIES = {"sharded": Sharded(shard), "replicated": None, "deterministic": Deterministic()}

STOPPING = {
    "load_best_model_at_end": True,
    "metric_for_best_model": "eval_loss",
    "greater_is_better": False,
}
stops_early = "STOPS_EARLY" in os.environ
trainer = SlowTrainer(
    tiny.model(),
    tiny.arguments(
        Path("out"),
        max_steps=STEPS,
        gradient_accumulation_steps=2,
        lr_scheduler_type="constant",
        logging_steps=3,
        eval_strategy="steps",
        eval_steps=5,
        save_strategy="steps",
        save_steps=5,
        save_total_limit=2,
        disable_tqdm=False,
        **STOPPING if stops_early else {},
    ),
    processes=MICRO_BATCHES // 2,
    strategy=STRATEGIES[os.environ.get("STRATEGY", "deterministic")],
    session_options={"journal": "log"},
    train_dataset=tiny.Tokens(100),
    eval_dataset=tiny.Tokens(11, seed=1),
    compute_metrics=accuracy,
    callbacks=[FirstWorker(), *([EarlyStoppingCallback(2)] if stops_early else [])],
)
trainer.train()
trainer.save_model("final")
