"""The job that all candidates train.

12 × Linear(1024), 12.6 million parameters, AdamW, 151 MB of state; one thread for each rank.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

WIDTH = int(os.environ.get("BENCH_WIDTH", "1024"))
LAYERS = 12
BATCH = 8


def model() -> nn.Sequential:
    """A model with the same parameters on every rank. Afterwards torch uses one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    return nn.Sequential(*layers)


def optimizer_of(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(net.parameters(), lr=1e-4)


def batch(step: int, number: int) -> torch.Tensor:
    """Micro-batch `number` of a step, the same on every rank."""
    seed = torch.Generator().manual_seed(step * 1_000_003 + number)
    # (samples, width)
    return torch.randn(BATCH, WIDTH, generator=seed)


def loss_of(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A loss that does not go to zero, so that losses can be compared."""
    loss: torch.Tensor = (net(x) - x.flip(-1)).square().mean()
    return loss


FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))


class Events:
    """Writes one line of JSON for each event to a file of this process."""

    def __init__(self, writer: object) -> None:
        self._file = open(FOLDER / f"events-{writer}-{os.getpid()}.jsonl", "a", buffering=1)  # noqa: SIM115

    def __call__(self, event: str, **facts: Any) -> None:
        self._file.write(
            json.dumps({"time": time.time(), "event": event, "pid": os.getpid(), **facts}) + "\n"
        )


def over() -> bool:
    """Whether the benchmark has stopped the job."""
    return (FOLDER / "stop").exists()
