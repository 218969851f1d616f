"""The same training with NVRx's in-process restart.

Model and optimizer are made once outside the function; the state is read from a checkpoint.
"""

import datetime
import logging
import os
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.bench.runtime.workers import job

EVERY = 10
# Timeout of the group; NVRx's abort cannot free a blocked gloo call, so it bounds the recovery.
TIMEOUT = datetime.timedelta(seconds=2)
# Time for all ranks to reach the store.
MEET = datetime.timedelta(seconds=120)

inprocess: Any = import_module("nvidia_resiliency_ext.inprocess")
own_rank = int(os.environ["RANK"])
size = int(os.environ["WORLD_SIZE"])
port = int(os.environ["MASTER_PORT"])
log_event = job.Events(own_rank)
net = job.model()
optimizer = job.optimizer_of(net)
base: Any = dist.TCPStore("127.0.0.1", port + 2, size, own_rank == 0, MEET, multi_tenant=True)  # type: ignore[attr-defined]
path = job.FOLDER / "checkpoint.pt"


def train(call_wrapper: Any = None) -> None:
    rank = int(os.environ["RANK"])
    world = int(os.environ["WORLD_SIZE"])
    turn = call_wrapper.iteration
    store = dist.PrefixStore(str(turn), base)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=TIMEOUT)
    ddp = DistributedDataParallel(net)
    step = 0
    if path.exists():
        saved = torch.load(path, weights_only=True)
        net.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    log_event("loaded", step=step)
    while not job.over():
        optimizer.zero_grad(set_to_none=True)
        job.loss_of(ddp, job.batch(step, rank)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        step += 1
        log_event("step", step=step, world=world, rank=own_rank, era=turn)
        if step % EVERY == 0:
            dist.barrier()
            if rank == 0:
                with call_wrapper.atomic():
                    draft = path.with_suffix(".draft")
                    torch.save(
                        {
                            "model": net.state_dict(),
                            "optimizer": optimizer.state_dict(),
                            "step": step,
                        },
                        draft,
                    )
                    draft.rename(path)
            dist.barrier()


# NVRx finds the parameter for its wrapper by this annotation.
train.__annotations__["call_wrapper"] = inprocess.CallWrapper
logging.disable(logging.CRITICAL)
inprocess.Wrapper(store_kwargs={"port": port + 1})(train)()
os._exit(0)
