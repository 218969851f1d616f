"""A regression on a stream that torchdata's StatefulDataLoader reads, the ordinary way: one
process, a loader worker, and the position in the data in the checkpoint."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from made_up import SHARDS, records
from torch import nn
from torch.nn import functional
from torch.utils.data import IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

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

    loader = StatefulDataLoader(Records(range(SHARDS)), batch_size=16, num_workers=1)
    batches = iter(loader)
    for step in range(args.steps):
        batch: Any = next(batches, None)
        if batch is None:
            batches = iter(loader)
            batch = next(batches)
        values, means = batch
        optimizer.zero_grad()
        functional.mse_loss(model(values), means).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if (step + 1) % 50 == 0:
            args.out.mkdir(exist_ok=True)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(
                state | {"step": step + 1, "loader": loader.state_dict()}, args.out / "save.pt"
            )
