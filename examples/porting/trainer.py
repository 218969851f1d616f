"""A loop like that of Hugging Face's Trainer, elastic. Run it with
`python -m elastic_runtime --local 2 trainer.py`."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from made_up import Digits
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset, default_collate

from elastic_runtime import Session


@dataclass
class TrainingArguments:
    output_dir: Path
    max_steps: int = 200
    per_device_train_batch_size: int = 4
    gradient_accumulation_steps: int = 8
    learning_rate: float = 1e-3
    warmup_steps: int = 20
    max_grad_norm: float = 1.0
    logging_steps: int = 50
    save_steps: int = 50
    dataloader_num_workers: int = 0


class Callback:
    def on_log(self, step: int, logs: dict[str, float]) -> None:
        print(step, logs)


class Trainer:
    def __init__(
        self,
        model: nn.Module,
        args: TrainingArguments,
        train_dataset: Dataset[Any],
        *,
        data_collator: Callable[[list[Any]], Any] = default_collate,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.model = model
        self.args = args
        self.train_dataset = train_dataset
        self.data_collator = data_collator
        self.callbacks = callbacks

    def create_optimizer_and_scheduler(self) -> None:
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.args.learning_rate)
        self.scheduler = LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / self.args.warmup_steps)
        )

    def compute_loss(self, inputs: Any) -> torch.Tensor:
        images, labels = inputs
        return functional.cross_entropy(self.model(images), labels)

    def log(self, step: int, loss: float) -> None:
        for callback in self.callbacks:
            callback.on_log(
                step, {"loss": loss, "learning_rate": float(self.scheduler.get_last_lr()[0])}
            )

    def train(self) -> None:
        args = self.args
        self.create_optimizer_and_scheduler()
        session = Session(
            self.model,
            self.optimizer,
            lr_schedulers=[self.scheduler],
            micro_batches=args.gradient_accumulation_steps,
            micro_batch_size=args.per_device_train_batch_size,
            checkpoint=args.output_dir / "save",
            save_every=args.save_steps,
            journal=args.output_dir,
        )
        loader = session.loader(
            self.train_dataset,
            num_workers=args.dataloader_num_workers,
            collate_fn=self.data_collator,
        )
        for step in session.steps(args.max_steps):
            for inputs in loader.batches(step):
                step.backward(self.compute_loss(inputs))
            step.clip(args.max_grad_norm)
            if (
                step.number % args.logging_steps == 0
                and session.loss is not None
                and session.rank == 0
            ):
                self.log(step.number, session.loss)


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--out", type=Path, default=Path("out"))
args = parser.parse_args()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
Trainer(model, TrainingArguments(args.out, args.steps), Digits(), callbacks=[Callback()]).train()
