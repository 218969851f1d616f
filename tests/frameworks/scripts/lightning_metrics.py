"""`lightning_metrics.py STEPS SECONDS`: validates, and stops early after the third validation.

Every worker appends what its callbacks may monitor after each validation to metrics-PID.jsonl.
"""

import json
import os
import sys
import time
from typing import Any

import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanAbsoluteError, MeanSquaredError, MetricCollection

from elastic_runtime.integrations.lightning import fit

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
# (samples, width)
inputs = torch.randn(96, 8)
targets = inputs.sum(1, keepdim=True)
pause_s = float(sys.argv[2])


class Data(LightningDataModule):
    def setup(self, stage: str) -> None:
        self.data = TensorDataset(inputs, targets)

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.data, batch_size=4, shuffle=True)

    def val_dataloader(self) -> list[DataLoader[Any]]:
        part = TensorDataset(inputs[:41], targets[:41])
        return [DataLoader(part, batch_size=2), DataLoader(self.data, batch_size=7)]


class Regression(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(8, 1)
        self.error = MeanSquaredError()
        self.errors = MetricCollection([MeanAbsoluteError(), MeanSquaredError()])

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> dict[str, torch.Tensor]:
        time.sleep(pause_s)
        loss = (self.net(batch[0]) - batch[1]).square().mean()
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        return {"loss": loss}

    def validation_step(self, batch: list[torch.Tensor], index: int, loader_idx: int) -> None:
        time.sleep(pause_s / 4)
        answers = self.net(batch[0])
        self.log("loss", (answers - batch[1]).square().mean())
        self.log("samples", float(len(answers)), reduce_fx="sum")
        self.error.update(answers, batch[1])
        self.errors.update(answers, batch[1])
        self.log("never_better", 1.0, add_dataloader_idx=False)

    def on_validation_epoch_end(self) -> None:
        self.log("error", self.error)
        self.log_dict(self.errors.compute())

    def configure_optimizers(self) -> tuple[list[Any], list[Any]]:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.1)
        slower = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        every_epoch = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        monitored = {"scheduler": slower, "monitor": "never_better"}
        return [optimizer], [monitored, {"scheduler": every_epoch}]


class Report(Callback):
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        values = {name: float(value) for name, value in trainer.callback_metrics.items()}
        line = {"epoch": trainer.current_epoch, "step": trainer.global_step, "values": values}
        with open(f"metrics-{os.getpid()}.jsonl", "a") as report:
            report.write(json.dumps(line) + "\n")


fit(
    Regression(),
    datamodule=Data(),
    max_steps=int(sys.argv[1]),
    micro_batches=6,
    gradient_clip_val=1.0,
    callbacks=[
        EarlyStopping("never_better", patience=3),
        ModelCheckpoint(monitor="error"),
        Report(),
    ],
    checkpoint="save",
    journal="log",
)
