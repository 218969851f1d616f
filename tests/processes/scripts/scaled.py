"""A loss whose scale is too large in every few steps, for the last row of the gradient only.

With weights, several optimizers, an lr_scheduler and clipping. What would overflow in float16 is
infinite here, and the rest is not rounded, so losses can be compared between sizes.
"""

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Deterministic, Session, Sharded


def wrap(model: Any, mesh: DeviceMesh) -> None:
    fully_shard(model, mesh=mesh)


def overflow(gradient: torch.Tensor) -> torch.Tensor:
    is_too_large = gradient.abs() > torch.finfo(torch.float16).max
    return torch.where(is_too_large, math.inf, gradient)


STRATEGIES: dict[str, Any] = {
    "replicated": None,
    "deterministic": Deterministic(),
    "hsdp": Sharded(wrap, shard_group_size=2),
}
torch.set_num_threads(1)
torch.manual_seed(0)
# (samples, width)
data = torch.randn(97, 64)
targets = torch.randn(97, 8)
# (outputs,)
importance = torch.tensor([1.0] * 7 + [30.0])
model = torch.nn.Linear(64, 8)
scaler = torch.amp.GradScaler("cpu", growth_interval=4)
optimizer = torch.optim.AdamW([model.weight], lr=1e-4)
session = Session(
    model,
    [optimizer, torch.optim.SGD([model.bias], lr=1e-3)],
    samples=97,
    micro_batches=10,
    micro_batch_size=3,
    lr_schedulers=[torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 400)],
    grad_scaler=scaler,
    strategy=STRATEGIES[os.environ["STRATEGY"]],
    checkpoint="save",
    journal="log",
)
for step in session.steps(int(sys.argv[1])):
    with Path(f"scales-{os.getpid()}.jsonl").open("a") as scales:
        scales.write(json.dumps([step.number, scaler.get_scale()]) + "\n")
    for batch in step:
        time.sleep(float(sys.argv[2]))
        tokens = sum(batch.indices) % 7
        outputs = model(data[batch.indices])
        outputs.register_hook(overflow)
        loss = ((outputs - targets[batch.indices]) * importance).square().mean()
        # As a mean over no tokens.
        step.backward(loss if tokens else loss * math.nan, weight=tokens)
    step.clip(0.5)
