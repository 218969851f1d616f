"""A model in one of several strategies, with an lr_scheduler and gradient clipping."""

import os
import sys
import time
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Session, Sharded


def wrap(model: Any, mesh: DeviceMesh) -> None:
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)


STRATEGIES = {
    "replicated": None,
    "fsdp": Sharded(wrap),
    "meta": Sharded(wrap),
    "hsdp": Sharded(wrap, shard_group_size=2),
    "peer-copies": Sharded(wrap, peer_copy_every=4),
}
torch.set_num_threads(1)
torch.manual_seed(0)
# (samples, width)
data = torch.randn(97, 64)
targets = torch.randn(97, 8)
# As the session seeds a model on the meta device.
torch.manual_seed(0)
with torch.device("meta" if os.environ["STRATEGY"] == "meta" else "cpu"):
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 63), torch.nn.Dropout(0.1), torch.nn.Tanh(), torch.nn.Linear(63, 8)
    )
groups: list[dict[str, Any]] = [
    {"params": model[0].parameters(), "lr": 2e-4},
    {"params": model[3].parameters()},
]
optimizer = torch.optim.AdamW(groups, lr=1e-4)
session = Session(
    model,
    optimizer,
    samples=97,
    micro_batches=10,
    micro_batch_size=3,
    lr_schedulers=[torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)],
    strategy=STRATEGIES[os.environ["STRATEGY"]],
    checkpoint=None if os.environ.get("NO_CHECKPOINT") else "save",
    journal="log",
)
for step in session.steps(int(sys.argv[1])):
    for batch in step:
        time.sleep(float(sys.argv[2]))
        loss: torch.Tensor = (model(data[batch.indices]) - targets[batch.indices]).square().mean()
        step.backward(loss)
    step.clip(0.5)
