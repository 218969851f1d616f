"""`lightning_sharded.py STEPS`: a sharded model, with an odd number of micro-batches.

Every worker appends each hook of a micro-batch, its step and its number to hooks-PID.jsonl.
"""

import json
import os
import sys
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

from elastic_runtime import Sharded
from elastic_runtime.integrations.lightning import fit

torch.set_num_threads(1)
torch.manual_seed(0)
# (samples, width)
inputs = torch.randn(12, 4)


class Regression(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        return self.net(batch[0]).square().mean()

    def validation_step(self, batch: list[torch.Tensor]) -> None:
        self.log("loss", self.net(batch[0]).square().mean())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Report(Callback):
    def on_train_batch_start(self, *arguments: Any) -> None:
        note("on_train_batch_start", *arguments)

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *others: Any) -> None:
        note("on_train_batch_end", trainer, module, *others)

    def on_validation_batch_start(self, *arguments: Any) -> None:
        note("on_validation_batch_start", *arguments)

    def on_validation_batch_end(
        self, trainer: Any, module: Any, outputs: Any, *others: Any
    ) -> None:
        note("on_validation_batch_end", trainer, module, *others)


def note(hook: str, trainer: Any, module: Any, batch: Any, number: int, *_: Any) -> None:
    with open(f"hooks-{os.getpid()}.jsonl", "a") as report:
        report.write(json.dumps([hook, trainer.global_step, number]) + "\n")


def shard(model: Any, mesh: Any) -> None:
    fully_shard(model.net, mesh=mesh)
    fully_shard(model, mesh=mesh)


fit(
    Regression(),
    DataLoader(TensorDataset(inputs), batch_size=2),
    DataLoader(TensorDataset(inputs[:6]), batch_size=2),
    max_steps=int(sys.argv[1]),
    micro_batches=3,
    callbacks=Report(),
    strategy=Sharded(shard),
)
