"""Tiny models and data for tests of the integrations, and Trainer in the session's order."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from elastic_runtime.data import batch_assignment
from elastic_runtime.integrations.transformers import ElasticTrainer

VOCABULARY = 64
SIZES = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
IGNORED = -100


def model() -> Any:
    torch.manual_seed(1)
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **SIZES, **HEADS))


class Tokens(torch.utils.data.Dataset[Any]):
    """Sequences of which different numbers of tokens count; each repeats a few tokens."""

    def __init__(self, count: int = 32, length: int = 8, seed: int = 0) -> None:
        draws = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(0, VOCABULARY, (count, 2), generator=draws).repeat(
            1, length // 2
        )
        self.ignored = torch.randint(0, length - 2, (count,), generator=draws).tolist()

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Any]:
        labels = self.tokens[index].clone()
        labels[: self.ignored[index]] = IGNORED
        return {"input_ids": self.tokens[index], "labels": labels}


def settings(directory: Path, **changes: Any) -> dict[str, Any]:
    """Of TrainingArguments: on the CPU, with a log line for each step."""
    chosen: dict[str, Any] = {
        "output_dir": str(directory),
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 4,
        "num_train_epochs": 2,
        "learning_rate": 1e-2,
        "warmup_steps": 2,
        "logging_steps": 1,
        "save_strategy": "no",
        "use_cpu": True,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "report_to": [],
    }
    return chosen | changes


def arguments(directory: Path, **changes: Any) -> TrainingArguments:
    return TrainingArguments(**settings(directory, **changes))


class SessionOrder(torch.utils.data.Sampler[int]):
    """Epoch after epoch, in the order in which a session draws samples."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.seed = seed
        self.epoch = -1

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        for position in range(self.size):
            yield batch_assignment.permute(self.seed, self.epoch, position, self.size)


class OrdinaryTrainer(Trainer):
    def _get_train_sampler(self, train_dataset: Any = None) -> SessionOrder:
        return SessionOrder(len(self.train_dataset), self.args.seed)


class Recorder(TrainerCallback):
    """Notes which event came at which step, and what was logged."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self.logs: list[dict[str, float]] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)

        def note(args: Any, state: Any, control: Any, **others: Any) -> None:
            self.events.append((name, state.global_step))
            if name == "on_log":
                self.logs.append({**others["logs"], "step": state.global_step})

        return note


MEASURED = ("loss", "grad_norm", "learning_rate", "epoch", "train_loss", "step")


def measured(logs: list[dict[str, float]]) -> list[dict[str, float]]:
    """Without times."""
    return [dict(filter(is_measured, line.items())) for line in logs]


def is_measured(item: tuple[str, float]) -> bool:
    key, _ = item
    is_time = "runtime" in key or "per_second" in key
    return key in MEASURED or (key.startswith("eval_") and not is_time)


def make(
    directory: Path,
    *,
    trainer_class: Any = ElasticTrainer,
    trained: Any = None,
    named: dict[str, Any] | None = None,
    **changes: Any,
) -> Any:
    """`trained`: another model. `named`: further arguments of the trainer.

    `changes`: of TrainingArguments.
    """
    given = {"train_dataset": Tokens(), "eval_dataset": Tokens(11, seed=1)} | (named or {})
    return trainer_class(trained or model(), arguments(directory, **changes), **given)
