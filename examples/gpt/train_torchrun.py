"""The same training as train.py, the ordinary way: torchrun (or RANK and WORLD_SIZE set by hand),
DDP, and a checkpoint every 20 steps."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from model import GPT, Text, loss_of
from torch.nn.parallel import DistributedDataParallel

BATCH = 64
parser = argparse.ArgumentParser()
parser.add_argument("--text", default=str(Path(__file__).with_name("LICENSE")))
parser.add_argument("--out", default="out")
parser.add_argument("--steps", type=int, default=100_000)
args = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(0)
text = Text(args.text)
dist.init_process_group("gloo")
rank = dist.get_rank()
world = dist.get_world_size()
model = DistributedDataParallel(GPT(len(text.characters), text.context))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

start = 0
save = Path(args.out, "save.pt")
save.parent.mkdir(parents=True, exist_ok=True)
if save.exists():
    saved = torch.load(save)
    start = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
for step in range(start, args.steps):
    order = torch.randperm(len(text), generator=torch.Generator().manual_seed(step))
    first = rank * BATCH // world
    last = (rank + 1) * BATCH // world
    inputs, targets = text.batch(order[first:last].tolist())
    optimizer.zero_grad()
    loss = loss_of(model, inputs, targets)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    if rank == 0:
        line = {"step": step + 1, "loss": loss.item(), "size": world}
        line |= {"generation": os.getpid(), "time": time.time()}
        with open(f"{args.out}/steps-0-0.jsonl", "a") as log:
            log.write(json.dumps(line) + "\n")
        if (step + 1) % 20 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({"step": step + 1, **state}, f"{save}.new")
            os.replace(f"{save}.new", save)
