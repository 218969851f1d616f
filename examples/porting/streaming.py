"""A regression on data that can only be read in its own order, elastic. Run it with
`python -m elastic_runtime --local 2 streaming.py`."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
from made_up import SHARDS, records
from torch import nn
from torch.nn import functional

from elastic_runtime import Session

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--out", type=Path, default=Path("out"))
args = parser.parse_args()


def open_stream(number: int, count: int, epoch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for shard in range(number, SHARDS, count):
        yield from records(shard)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

session = Session(
    model,
    optimizer,
    micro_batches=8,
    micro_batch_size=4,
    checkpoint=args.out / "save",
    save_every=50,
    journal=args.out,
)
streams = session.streams(open_stream)
for step in session.steps(args.steps):
    for values, means in streams.batches(step):
        step.backward(functional.mse_loss(model(values), means))
