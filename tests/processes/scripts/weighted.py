"""Micro-batches of different numbers of tokens, in one of several strategies, with clipping."""

import math
import os
import sys
import time
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Deterministic, Session, Sharded


def wrap(model: Any, mesh: DeviceMesh) -> None:
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)


STRATEGIES: dict[str, Any] = {
    "replicated": None,
    "deterministic": Deterministic(),
    "fsdp": Sharded(wrap),
    "hsdp": Sharded(wrap, shard_group_size=2),
}
torch.set_num_threads(1)
torch.manual_seed(0)
# (samples, width)
data = torch.randn(97, 64)
targets = torch.randn(97, 8)
model = torch.nn.Sequential(torch.nn.Linear(64, 63), torch.nn.Tanh(), torch.nn.Linear(63, 8))
session = Session(
    model,
    torch.optim.AdamW(model.parameters(), lr=1e-4),
    samples=97,
    micro_batches=10,
    micro_batch_size=3,
    strategy=STRATEGIES[os.environ["STRATEGY"]],
    journal="log",
)
for step in session.steps(int(sys.argv[1])):
    for batch in step:
        time.sleep(float(sys.argv[2]))
        tokens = sum(batch.indices) % 7
        loss: torch.Tensor = (model(data[batch.indices]) - targets[batch.indices]).square().mean()
        if not tokens:
            # As a mean over no tokens.
            loss = loss * math.nan
        step.backward(loss, weight=tokens)
    step.clip(0.5)
