"""The same training with torchft: one process a replica group, DDP over gloo.

The timeout of 5 s is that of torchft's own example.
"""

import logging
import os
from datetime import timedelta
from importlib import import_module
from typing import Any

import torch.distributed as dist

from tests.bench.runtime.workers import job

torchft: Any = import_module("torchft")
logging.disable(logging.CRITICAL)
group = int(os.environ["BENCH_GROUP"])
log_event = job.Events(group)
store: Any = dist.TCPStore(  # type: ignore[attr-defined]
    "127.0.0.1", 0, None, True, timedelta(seconds=60), wait_for_workers=False
)
net = job.model()
inner = job.optimizer_of(net)


def load(state: dict[str, Any]) -> None:
    net.load_state_dict(state["model"])
    inner.load_state_dict(state["optimizer"])


manager = torchft.Manager(
    pg=torchft.ProcessGroupGloo(timeout=timedelta(seconds=5)),
    min_replica_size=1,
    load_state_dict=load,
    state_dict=lambda: {"model": net.state_dict(), "optimizer": inner.state_dict()},
    replica_id=f"group-{group}",
    timeout=timedelta(seconds=30),
    rank=0,
    world_size=1,
    hostname="127.0.0.1",
    store_addr="127.0.0.1",
    store_port=store.port,
    lighthouse_addr=os.environ["BENCH_LIGHTHOUSE"],
    use_async_quorum=True,
)
ddp = torchft.DistributedDataParallel(manager, net)
optimizer: Any = torchft.Optimizer(manager, inner)
while not job.over():
    before = manager.current_step()
    optimizer.zero_grad()
    job.loss_of(ddp, job.batch(before, group)).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    if (step := manager.current_step()) > before:
        log_event("step", step=step, world=manager.num_participants(), rank=group)
    else:
        log_event("thrown away", step=step)
os._exit(0)
