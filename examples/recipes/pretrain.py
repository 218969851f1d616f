"""Trains a language model from the beginning, with FSDP2, as torchtitan does.

    python -m elastic_runtime --local 2 pretrain.py values/pretrain.toml

No worker ever has the whole model: it is built on the meta device, and each worker makes or loads
its own rows. The values file says everything that is to be chosen; docs/recipes.md explains it.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from llama import Llama
from token_streams import BYTES, Tokenizer, TokenStream
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR
from values import Training, from_command_line

from elastic_runtime import Session, Sharded

BETAS = (0.9, 0.95)
WEIGHT_DECAY = 0.1
MAX_NORM = 1.0
# Of the learning rate, at the end.
FINAL_SHARE = 0.1


@dataclass(kw_only=True)
class Model:
    width: int
    depth: int
    heads: int
    kv_heads: int
    # Of the feed-forward layers.
    hidden: int


@dataclass(kw_only=True)
class Values(Training):
    # Tokens of a sample.
    context: int
    # A tokenizer.json, which needs the package tokenizers, or bytes.
    tokenizer: str = BYTES
    # Its token after a document.
    end: str = ""
    bf16: bool = True
    # Whether to compute blocks again in the backward pass, to use less memory.
    recompute: bool = True
    # How many workers share one copy of the model; 0: all.
    shard_group_size: int = 0
    # Steps between two copies of each shard in the memory of another worker; 0: none.
    peer_copy_every: int = 0
    model: Model

    def files(self) -> list[Path]:
        return sorted(Path(self.data).glob("*.jsonl"))

    def mistakes(self) -> Iterator[str]:
        yield from super().mistakes()
        if not self.files():
            yield f"data is {self.data!r}: give a directory with files *.jsonl"
        if self.tokenizer != BYTES and not Path(self.tokenizer).exists():
            yield f"tokenizer is {self.tokenizer!r}: give a path that exists, or bytes"
        if not self.context:
            yield "context is 0: give at least 1"

    def strategy(self) -> Sharded:
        block_policy = policy = MixedPrecisionPolicy()
        if self.bf16:
            block_policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
            # The loss is computed of logits in float32.
            policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)

        def wrap(model: Any, mesh: Any) -> None:
            for block in model.blocks:
                fully_shard(block, mesh=mesh, mp_policy=block_policy)
            fully_shard(model, mesh=mesh, mp_policy=policy)

        return Sharded(
            wrap,
            shard_group_size=self.shard_group_size or None,
            peer_copy_every=self.peer_copy_every,
        )

    def rate_share(self, step: int) -> float:
        """Of the learning rate: it rises in the warmup, and then falls as a cosine."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return FINAL_SHARE + (1 - FINAL_SHARE) * (1 + math.cos(math.pi * min(done, 1.0))) / 2


values = from_command_line(Values)
tokenizer = Tokenizer(values.tokenizer, values.end)
with torch.device("meta"):
    model = Llama(tokenizer.vocabulary, **asdict(values.model), recompute=values.recompute)
optimizer = torch.optim.AdamW(
    model.parameters(), lr=values.learning_rate, betas=BETAS, weight_decay=WEIGHT_DECAY
)
session = Session(
    model,
    optimizer,
    lr_schedulers=[LambdaLR(optimizer, values.rate_share)],
    strategy=values.strategy(),
    **values.session_options(),
)


def open_stream(number: int, count: int, epoch: int) -> TokenStream:
    return TokenStream(values.files(), tokenizer, values.context, number, count, epoch)


streams = session.streams(open_stream, collate_fn=torch.tensor)
for step in session.steps(values.steps):
    for samples in streams.batches(step):
        # (micro_batch, context + 1)
        tokens = samples.to(session.device)
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        step.backward(loss)
    step.clip(MAX_NORM)
