"""A classifier on a map-style dataset, the ordinary way: one process, a DataLoader with workers."""

import argparse
from pathlib import Path

import torch
from made_up import Digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--out", type=Path, default=Path("out"))
args = parser.parse_args()

torch.manual_seed(0)
dataset = Digits()
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=2)
step = 0
while step < args.steps:
    for images, labels in loader:
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        step += 1
        if step % 50 == 0:
            args.out.mkdir(exist_ok=True)
            torch.save(
                {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()},
                args.out / "save.pt",
            )
        if step == args.steps:
            break
