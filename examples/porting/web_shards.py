"""A regression on tar files that WebDataset reads, elastic. `python made_up_shards.py shards` makes
the data, and `python -m elastic_runtime --local 2 web_shards.py` runs it."""

import argparse
from pathlib import Path

import torch
import webdataset
from torch import nn
from torch.nn import functional

from elastic_runtime import Session

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--out", type=Path, default=Path("out"))
parser.add_argument("--shards", type=Path, default=Path("shards"))
args = parser.parse_args()
shards = sorted(map(str, args.shards.glob("*.tar")))


def samples(urls: list[str], epoch: int) -> webdataset.WebDataset:
    data = webdataset.WebDataset(urls, shardshuffle=100, nodesplitter=None, seed=epoch)
    return data.shuffle(1000, seed=epoch).decode().to_tuple("values.pth", "mean.pth")


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

session = Session(
    model,
    optimizer,
    data=lambda number, count, epoch: samples(shards[number::count], epoch),
    micro_batches=4,
    micro_batch_size=4,
    checkpoint=args.out / "save",
    save_every=50,
    journal=args.out,
)
for step in session.steps(args.steps):
    for values, means in step.data:
        step.backward(functional.mse_loss(model(values), means))
