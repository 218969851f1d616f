"""The same training with torchrun: DDP, and a checkpoint every ten steps for restarts."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.bench.runtime.workers import job

EVERY = 10

dist.init_process_group("gloo")
rank = dist.get_rank()
world = dist.get_world_size()
log_event = job.Events(rank)
net = job.model()
ddp = DistributedDataParallel(net)
optimizer = job.optimizer_of(net)
step = 0
path = job.FOLDER / "checkpoint.pt"
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
    log_event("step", step=step, world=world, rank=rank)
    if step % EVERY == 0:
        if rank == 0:
            draft = path.with_suffix(".draft")
            with open(draft, "wb") as file:
                torch.save(
                    {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
                    file,
                )
                file.flush()
                os.fsync(file.fileno())
            draft.rename(path)
        dist.barrier()
