"""A regression on tar files that WebDataset reads, the ordinary way: one process, loader workers.
`python made_up_shards.py shards` makes the data."""

import argparse
from pathlib import Path

import torch
import webdataset
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--out", type=Path, default=Path("out"))
parser.add_argument("--shards", type=Path, default=Path("shards"))
args = parser.parse_args()
shards = sorted(map(str, args.shards.glob("*.tar")))


def samples(urls: list[str]) -> webdataset.WebDataset:
    data = webdataset.WebDataset(urls, shardshuffle=100, nodesplitter=None)
    return data.shuffle(1000).decode().to_tuple("values.pth", "mean.pth")


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

loader = webdataset.WebLoader(samples(shards).repeat(), batch_size=16, num_workers=2)
for step, (values, means) in zip(range(args.steps), loader, strict=False):
    optimizer.zero_grad()
    functional.mse_loss(model(values), means).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    # the position in the data is not saved
    if (step + 1) % 50 == 0:
        args.out.mkdir(exist_ok=True)
        torch.save(
            {"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()},
            args.out / "save.pt",
        )
