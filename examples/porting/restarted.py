"""A script for torchrun that `python -m elastic_runtime --restart` restarts at each new size.

Of Cede it has two functions: one for the number of micro-batches, so that the batch stays, and one
that tells all ranks to save and end after the same step. `restarted.py STEPS SECONDS`: how many
steps, and how long a micro-batch takes at least.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from elastic_runtime.restart import accumulation_steps, stop_requested

STEPS = int(sys.argv[1])
MICRO_BATCHES = 12
SAVE = Path("save.pt")


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    step = 0
    if SAVE.exists():
        saved = torch.load(SAVE)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    share = accumulation_steps(MICRO_BATCHES)
    stopping = stop_requested(step=step)
    while step < STEPS and not stopping:
        losses = torch.zeros(1)
        for number in range(rank * share, (rank + 1) * share):
            generator = torch.Generator().manual_seed(step * MICRO_BATCHES + number)
            x = torch.randn(4, 8, generator=generator)
            time.sleep(float(sys.argv[2]))
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean() / share
            loss.backward()
            losses += loss.detach() / world
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(losses)
        step += 1
        if rank == 0:
            line = {"step": step, "loss": losses.item(), "world": world, "at": time.time()}
            with open("steps.jsonl", "a") as journal:
                journal.write(json.dumps(line) + "\n")
        stopping = stop_requested(step=step)
        if rank == 0 and (stopping or step % 10 == 0):
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, "save.part")
            os.replace("save.part", SAVE)
    dist.destroy_process_group()


main()
