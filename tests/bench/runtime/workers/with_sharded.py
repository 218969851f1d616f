"""The job sharded by FSDP2. Every twentieth step each rank also writes its part through DCP and
loads it back, for comparison.

DCP is given each rank's part as plain tensors, without a plan over the ranks and without another
size to load at: less than it has to do
for a resize.
"""

import time
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from elastic_runtime import Session, Sharded
from tests.bench.runtime.workers import job

# steps; the one in each period that DCP is tried after
EVERY = 20
COMPARED = 10


def wrap(net: nn.Sequential, mesh: DeviceMesh) -> None:
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)


def part() -> dict[str, torch.Tensor]:
    """What this rank holds of parameters and moments."""
    held: dict[str, Any] = {f"p{n}": p for n, p in enumerate(net.parameters())}
    held |= {
        f"{n}.{name}": v for n, s in enumerate(optimizer.state.values()) for name, v in s.items()
    }
    return {
        name: value.to_local().detach() if isinstance(value, DTensor) else value.detach()
        for name, value in held.items()
    }


net = job.model()
optimizer = job.optimizer_of(net)
session = Session(
    net,
    optimizer,
    samples=100_000,
    micro_batches=4,
    micro_batch_size=job.BATCH,
    journal=job.FOLDER / "log",
    strategy=Sharded(wrap),
)
say = None
for step in session.steps(1_000_000):
    say = say or job.Events(session.rank)
    if step.number % EVERY == COMPARED:
        mine = part()
        target = job.FOLDER / f"dcp-{session.rank}"
        began = time.perf_counter()
        dcp_save(mine, checkpoint_id=target, no_dist=True)
        dcp_load(mine, checkpoint_id=target, no_dist=True)
        say("dcp", seconds=time.perf_counter() - began, step=step.number, world=session.world)
    for batch in step:
        step.backward(job.loss_of(net, job.batch(step.number, batch.number)))
