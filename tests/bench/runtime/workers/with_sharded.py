"""The job sharded by FSDP2, with a save and load by DCP for comparison.

Every twentieth step each rank writes its shard with DCP and loads it back. DCP gets plain tensors,
without a plan across ranks and at the same size: less work than a resize takes.
"""

import time
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_state import FSDPState
from torch.distributed.tensor import DTensor

from elastic_runtime import Session, Sharded
from tests.bench.runtime.workers import job

# Period in steps, and the step in each period at which DCP is measured.
EVERY = 20
DCP_AT = 10


if not hasattr(FSDPState(), "_fsdp_param_groups"):
    # torch 2.11, which is not supported, has one group for each module. It can be measured.
    setattr(  # noqa: B010
        FSDPState,
        "_fsdp_param_groups",
        property(lambda state: [state._fsdp_param_group] if state._fsdp_param_group else []),
    )


def wrap(net: nn.Sequential, mesh: DeviceMesh) -> None:
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)


def part() -> dict[str, torch.Tensor]:
    """This rank's shard of parameters and moments."""
    values: dict[str, Any] = {f"p{n}": p for n, p in enumerate(net.parameters())}
    values |= {
        f"{n}.{name}": v for n, s in enumerate(optimizer.state.values()) for name, v in s.items()
    }
    return {
        name: value.to_local().detach() if isinstance(value, DTensor) else value.detach()
        for name, value in values.items()
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
log_event = None
for step in session.steps(1_000_000):
    log_event = log_event or job.Events(session.rank)
    if step.number % EVERY == DCP_AT:
        shard = part()
        target = job.FOLDER / f"dcp-{session.rank}"
        began = time.perf_counter()
        dcp_save(shard, checkpoint_id=target, no_dist=True)
        dcp_load(shard, checkpoint_id=target, no_dist=True)
        log_event("dcp", seconds=time.perf_counter() - began, step=step.number, world=session.world)
    for batch in step:
        step.backward(job.loss_of(net, job.batch(step.number, batch.number)))
