"""A loop like that of Hugging Face's Trainer, the ordinary way: arguments, callbacks,
compute_loss, a schedule, accumulation, checkpoints."""

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
from torch.utils.data import DataLoader, Dataset, default_collate


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

    def save(self, step: int) -> None:
        self.args.output_dir.mkdir(exist_ok=True)
        state = {
            "step": step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        torch.save(
            state | {"scheduler": self.scheduler.state_dict()},
            self.args.output_dir / f"checkpoint-{step}.pt",
        )

    def train(self) -> None:
        args = self.args
        self.create_optimizer_and_scheduler()
        loader = DataLoader(
            self.train_dataset,
            batch_size=args.per_device_train_batch_size,
            shuffle=True,
            num_workers=args.dataloader_num_workers,
            collate_fn=self.data_collator,
        )
        batches = iter(loader)
        for step in range(args.max_steps):
            total = 0.0
            self.optimizer.zero_grad()
            for _ in range(args.gradient_accumulation_steps):
                inputs = next(batches, None)
                if inputs is None:
                    batches = iter(loader)
                    inputs = next(batches)
                loss = self.compute_loss(inputs) / args.gradient_accumulation_steps
                loss.backward()  # type: ignore[no-untyped-call]
                total += loss.item()
            nn.utils.clip_grad_norm_(self.model.parameters(), args.max_grad_norm)
            self.optimizer.step()
            self.scheduler.step()
            if (step + 1) % args.logging_steps == 0:
                self.log(step + 1, total)
            if (step + 1) % args.save_steps == 0:
                self.save(step + 1)


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--out", type=Path, default=Path("out"))
args = parser.parse_args()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
Trainer(model, TrainingArguments(args.out, args.steps), Digits(), callbacks=[Callback()]).train()
