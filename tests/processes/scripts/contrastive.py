"""A contrastive loss over the whole batch, and a clipping norm that workers agree on."""

import os
import sys
import time
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

from elastic_runtime import Deterministic, Session, Sharded


def wrap(model: Any, mesh: DeviceMesh) -> None:
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)


STRATEGIES: dict[str, Any] = {
    "replicated": None,
    "deterministic": Deterministic(),
    "hsdp": Sharded(wrap, shard_group_size=2),
}
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
# (samples, width)
data = torch.randn(97, 16)
model = torch.nn.Sequential(torch.nn.Linear(16, 15), torch.nn.Dropout(0.1), torch.nn.Linear(15, 8))
session = Session(
    model,
    torch.optim.AdamW(model.parameters(), lr=1e-3),
    samples=97,
    micro_batches=10,
    micro_batch_size=3,
    strategy=STRATEGIES[os.environ["STRATEGY"]],
    journal="log",
)


def encode(batch: Any) -> torch.Tensor:
    """(samples, width)"""
    return functional.normalize(model(data[batch.indices]))


def contrast(codes: torch.Tensor) -> torch.Tensor:
    """The code of each sample is to be similar to that of the next one."""
    return functional.cross_entropy(codes @ codes.T, torch.arange(len(codes)).roll(1))


for step in session.steps(int(sys.argv[1])):
    if step.number % 4 == 0:
        sums = session.evaluate(9, lambda indices: {"count": len(indices)}, micro_batch_size=2)
        assert sums["count"] == 9 or not sums.is_complete
    codes = step.gather_batch(encode)
    losses = list[torch.Tensor]()
    for batch in step:
        time.sleep(float(sys.argv[2]))
        own = encode(batch)
        loss = contrast(step.insert_own(codes, own))
        step.backward(loss)
        if batch.contributes:
            losses.append(own.detach().std())
    # (micro-batches of all workers,)
    spreads = step.all_gather(torch.tensor(losses))
    largest = step.all_reduce(torch.tensor(losses or [0.0]).max(), "max")
    step.clip(float(spreads.mean() * largest))
