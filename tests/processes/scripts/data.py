"""Reads its samples from a loader with workers or from streams, and logs which it was given."""

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch

from elastic_runtime import Session

torch.set_num_threads(1)
torch.manual_seed(0)
# (samples, width)
points = torch.randn(97, 64)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 8)
)
session = Session(
    model,
    torch.optim.AdamW(model.parameters(), lr=1e-4),
    micro_batches=6,
    micro_batch_size=3,
    checkpoint="save",
    journal="log",
)


class Points(torch.utils.data.Dataset[tuple[int, torch.Tensor]]):
    def __len__(self) -> int:
        return 97

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        return index, points[index] + torch.randn(64)


class Stream:
    def __init__(self, number: int, count: int, epoch: int) -> None:
        order = torch.randperm(97, generator=torch.Generator().manual_seed(epoch))
        self._order = order[number::count].tolist()
        self._position = 0

    def __iter__(self) -> Iterator[tuple[int, torch.Tensor]]:
        while self._position < len(self._order):
            self._position += 1
            index = self._order[self._position - 1]
            yield index, points[index] + torch.randn(64)

    def state_dict(self) -> dict[str, Any]:
        return {"position": self._position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._position = state["position"]


source: Any
if os.environ["SOURCE"] == "loader":
    source = session.loader(Points(), num_workers=2)
else:
    source = session.streams(Stream)
log = None
for step in session.steps(int(sys.argv[1])):
    log = log or open(f"log/given-{os.getpid()}.jsonl", "a", buffering=1)  # noqa: SIM115
    samples = list[int]()
    for indices, inputs in source.batches(step):
        time.sleep(float(sys.argv[2]))
        samples += indices.tolist()
        step.backward(model(inputs).square().mean())
    line = {
        "step": step.number + 1,
        "rank": session.rank,
        "generation": session.generation,
        "samples": samples,
    }
    log.write(json.dumps(line) + "\n")
