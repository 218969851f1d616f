"""Fine-tunes a language model of transformers, in full or by LoRA.

    python -m elastic_runtime --local 2 fine_tune.py values/llama-lora.toml

The values file says everything that is to be chosen; docs/recipes.md explains it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from language_models import Lora, load
from samples import TokenSamples
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import DataCollatorForSeq2Seq, TrainingArguments
from values import Training, from_command_line

from elastic_runtime import Sharded, device
from elastic_runtime.integrations.transformers import ElasticTrainer


@dataclass(kw_only=True)
class Values(Training):
    # On the Hugging Face Hub, a directory, or random:llama.
    model: str
    # Of a sample; the rest is cut off.
    max_tokens: int
    # Whether to compute in bfloat16.
    bf16: bool = True
    # Whether each worker has a part of the model only.
    sharded: bool = False
    # JSON lines as in `data`; none: no evaluation.
    evaluation: str = ""
    # Steps.
    evaluate_every: int = 100
    lora: Lora | None = None
    # Further TrainingArguments.
    arguments: dict[str, Any] = field(default_factory=dict)

    def mistakes(self) -> Iterator[str]:
        yield from super().mistakes()
        if self.evaluation and not Path(self.evaluation).exists():
            yield f"evaluation is {self.evaluation!r}: give a path that exists"
        known = {entry.name for entry in fields(TrainingArguments)}
        for name in self.arguments.keys() - known:
            yield f"arguments.{name} is unknown: TrainingArguments has no such argument"

    def dtype(self) -> torch.dtype:
        """Of the parameters. Frozen ones need no more than what they are computed in."""
        is_small = self.bf16 and self.lora and not self.sharded
        return torch.bfloat16 if is_small else torch.get_default_dtype()

    def training_arguments(self) -> TrainingArguments:
        evaluates = {"eval_strategy": "steps", "eval_steps": self.evaluate_every}
        chosen: dict[str, Any] = {
            "output_dir": self.output,
            "per_device_train_batch_size": self.micro_batch,
            "gradient_accumulation_steps": self.micro_batches,
            "max_steps": self.steps,
            "learning_rate": self.learning_rate,
            "lr_scheduler_type": "cosine",
            "warmup_steps": self.warmup,
            "bf16": self.bf16,
            "use_cpu": device().type == "cpu",
            "logging_steps": 10,
            "save_strategy": "steps",
            "save_steps": self.save_every,
            "save_total_limit": 2,
            "seed": self.seed,
            **(evaluates if self.evaluation else {}),
        }
        return TrainingArguments(**chosen | self.arguments)

    def strategy(self) -> Sharded | None:
        if not self.sharded:
            return None
        policy = MixedPrecisionPolicy()
        if self.bf16:
            policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)

        def wrap(model: Any, mesh: Any) -> None:
            blocks = model._no_split_modules
            for module in list(model.modules()):
                if type(module).__name__ in blocks:
                    fully_shard(module, mesh=mesh, mp_policy=policy)
            fully_shard(model, mesh=mesh, mp_policy=policy)

        return Sharded(wrap)


values = from_command_line(Values)
model, tokenizer = load(values.model, values.lora, dtype=values.dtype(), seed=values.seed)


def samples(path: str) -> TokenSamples:
    return TokenSamples(path, tokenizer, values.max_tokens)


trainer = ElasticTrainer(
    model,
    values.training_arguments(),
    data_collator=DataCollatorForSeq2Seq(tokenizer),
    train_dataset=samples(values.data),
    eval_dataset=samples(values.evaluation) if values.evaluation else None,
    processing_class=tokenizer,
    strategy=values.strategy(),
    session_options=values.journal_options(),
)
trainer.train()
trainer.save_model(f"{values.output}/model")
