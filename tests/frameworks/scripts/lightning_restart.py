"""Lightning's Trainer as it is, for `--restart`: `train.py STEPS SECONDS`.

Epochs have 8 steps, so most resizes are in the middle of one. Its data is shuffled.
"""

import json
import os
import sys
import time
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

from elastic_runtime.integrations.lightning import RestartCallback

STEPS, SECONDS = int(sys.argv[1]), float(sys.argv[2])
MICRO_BATCHES = 4
SAMPLES = 64


class Line(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        (x,) = batch
        return (self.layer(x) - x.sum(1, keepdim=True)).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01)


class Journal(Callback):
    """A line for each step with its loss, by the first process."""

    def __init__(self) -> None:
        self.losses: list[torch.Tensor] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *others: Any) -> None:
        self.losses.append(outputs["loss"].detach())
        if len(self.losses) < trainer.accumulate_grad_batches:
            return
        time.sleep(SECONDS)
        # Lightning has divided each by their number.
        loss = trainer.strategy.reduce(torch.stack(self.losses).sum(), reduce_op="mean")
        self.losses.clear()
        if trainer.is_global_zero:
            line = {"step": trainer.global_step, "world": trainer.world_size, "loss": loss.item()}
            with open("steps.jsonl", "a") as file:
                file.write(json.dumps(line) + "\n")


torch.manual_seed(0)
module = Line()
data = TensorDataset(torch.randn(SAMPLES, 8))
restart = RestartCallback("out", micro_batches=MICRO_BATCHES)
trainer = Trainer(
    max_steps=STEPS,
    accelerator="cpu",
    devices="auto",
    num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
    strategy="ddp",
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[ModelCheckpoint("out", every_n_train_steps=10), Journal(), restart],
)
trainer.fit(module, DataLoader(data, batch_size=2, shuffle=True), ckpt_path=restart.newest)
