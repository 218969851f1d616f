"""A regression on data that can only be read in its own order, the ordinary way: one process, an
IterableDataset."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
from made_up import SHARDS, records
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--out", type=Path, default=Path("out"))
args = parser.parse_args()


class Records(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            for shard in range(SHARDS):
                yield from records(shard)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

loader = iter(DataLoader(Records(), batch_size=32))
for step in range(args.steps):
    values, means = next(loader)
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
