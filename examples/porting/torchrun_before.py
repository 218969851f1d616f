"""A classifier in several processes, the ordinary way: torchrun, DDP, a DistributedSampler,
checkpoints that rank 0 writes."""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from made_up import Digits
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--out", type=Path, default=Path("out"))
args = parser.parse_args()

torch.manual_seed(0)
dataset = Digits()
dist.init_process_group("gloo")
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
model = DistributedDataParallel(net)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

sampler: DistributedSampler[int] = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=32 // dist.get_world_size(), sampler=sampler)
step = 0
save = args.out / "save.pt"
if save.exists():
    saved = torch.load(save)
    step = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
while step < args.steps:
    # after a restart the epoch begins again
    sampler.set_epoch(step * 32 // len(dataset))
    for images, labels in loader:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 50 == 0 and dist.get_rank() == 0:
            args.out.mkdir(exist_ok=True)
            torch.save(
                {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()},
                f"{save}.new",
            )
            os.replace(f"{save}.new", save)
        if step >= args.steps:
            break
dist.destroy_process_group()
