"""A script with the Trainer as it is, for `--restart`: `train.py STEPS SECONDS`."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from elastic_runtime.integrations.transformers import RestartCallback
from elastic_runtime.restart import accumulation_steps
from tests.frameworks import tiny

STEPS, SECONDS = int(sys.argv[1]), float(sys.argv[2])
MICRO_BATCHES = 4
OUT = Path("out")


class Journal(TrainerCallback):
    """A line for each step with its loss, by the first process."""

    def on_log(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        time.sleep(SECONDS)
        if state.is_world_process_zero and "loss" in others["logs"]:
            line = {"step": state.global_step, "world": args.world_size, **others["logs"]}
            with open("steps.jsonl", "a") as file:
                file.write(json.dumps(line) + "\n")


trainer = Trainer(
    tiny.model(),
    tiny.arguments(
        OUT,
        max_steps=STEPS,
        gradient_accumulation_steps=accumulation_steps(MICRO_BATCHES),
        lr_scheduler_type="constant",
        save_strategy="steps",
        save_steps=10,
        save_total_limit=2,
    ),
    train_dataset=tiny.Tokens(64),
    callbacks=[RestartCallback(), Journal()],
)
newest = get_last_checkpoint(str(OUT)) if OUT.exists() else None
trainer.train(resume_from_checkpoint=newest)
