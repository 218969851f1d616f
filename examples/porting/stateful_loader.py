"""A regression on streams that torchdata's StatefulDataLoader reads, elastic: each stream has a
loader worker. Run it with `python -m elastic_runtime --local 2 stateful_loader.py`."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
from made_up import SHARDS, records
from torch import nn
from torch.nn import functional
from torch.utils.data import IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

from elastic_runtime import Session

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--out", type=Path, default=Path("out"))
args = parser.parse_args()


class Records(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    def __init__(self, shards: range) -> None:
        self.shards = shards
        self.position = 0

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        first, self.position = self.position, 0
        for shard in self.shards:
            for record in records(shard):
                self.position += 1
                if self.position > first:
                    yield record
        self.position = 0

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    session = Session(
        model,
        optimizer,
        data=lambda number, count, epoch: StatefulDataLoader(
            Records(range(number, SHARDS, count)), batch_size=None, num_workers=1
        ),
        micro_batches=4,
        micro_batch_size=4,
        checkpoint=args.out / "save",
        save_every=50,
        journal=args.out,
    )
    for step in session.steps(args.steps):
        for values, means in step.data:
            step.backward(functional.mse_loss(model(values), means))
