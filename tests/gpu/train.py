"""A model on a GPU, in one of several strategies, with gradient clipping.

In double precision: at another size sums are in another order, and losses are compared to one part
in a million.
"""

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


STRATEGIES = {
    "replicated": None,
    "deterministic": Deterministic(),
    "fsdp": Sharded(wrap),
    "peer-copies": Sharded(wrap, peer_copy_every=4),
    "one-rank-shards": Sharded(wrap, shard_group_size=1),
}
pod = int(os.environ.get("JOB_COMPLETION_INDEX", "0"))
gpus = int(os.environ.get("GPUS", torch.cuda.device_count()))
device = torch.device("cuda", pod % gpus)
torch.manual_seed(0)
# (samples, width)
data = torch.randn(97, 64).double().to(device)
targets = torch.randn(97, 8).double().to(device)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 63), torch.nn.Tanh(), torch.nn.BatchNorm1d(63), torch.nn.Linear(63, 8)
)
model = model.double().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
session = Session(
    model,
    optimizer,
    samples=97,
    micro_batches=10,
    micro_batch_size=3,
    strategy=STRATEGIES[os.environ.get("STRATEGY", "replicated")],
    checkpoint="save",
    journal="log",
)
for step in session.steps(int(sys.argv[1])):
    for batch in step:
        # A step that takes its time.
        time.sleep(float(sys.argv[2]))
        step.backward((model(data[batch.indices]) - targets[batch.indices]).square().mean())
    step.clip(0.5)
