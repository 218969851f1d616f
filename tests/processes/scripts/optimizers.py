"""Two optimizers with a schedule each, in one of several strategies."""

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


STRATEGIES: dict[str, Any] = {
    "replicated": None,
    "fsdp": Sharded(wrap),
    "hsdp": Sharded(wrap, shard_group_size=2),
}
torch.set_num_threads(1)
torch.manual_seed(0)
# (samples, width)
data = torch.randn(97, 64)
targets = torch.randn(97, 8)
model = torch.nn.Sequential(torch.nn.Linear(64, 63), torch.nn.Tanh(), torch.nn.Linear(63, 8))
body = torch.optim.SGD(model[0].parameters(), lr=0.02, momentum=0.9)
head = torch.optim.AdamW(model[2].parameters(), lr=1e-4)
session = Session(
    model,
    {"head": head, "body": body},
    samples=97,
    micro_batches=10,
    micro_batch_size=3,
    lr_schedulers=[
        torch.optim.lr_scheduler.CosineAnnealingLR(body, 100),
        torch.optim.lr_scheduler.StepLR(head, 7, 0.9),
    ],
    strategy=STRATEGIES[os.environ["STRATEGY"]],
    checkpoint="save",
    journal="log",
)
for step in session.steps(int(sys.argv[1])):
    for batch in step:
        time.sleep(float(sys.argv[2]))
        loss: torch.Tensor = (model(data[batch.indices]) - targets[batch.indices]).square().mean()
        step.backward(loss)
    step.clip(0.5)
