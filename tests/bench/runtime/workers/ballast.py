"""A model that is cheap to compute and large to save.

A small layer, and `BENCH_MIB` MiB of parameters that are never trained.
"""

import os
from collections.abc import Sequence

import torch
from torch import nn

MIB = int(os.environ.get("BENCH_MIB", "160"))
# Number of tensors.
PARTS = 16


def ballast() -> list[torch.Tensor]:
    """Random tensors, `MIB` MiB together, which cannot be compressed."""
    torch.set_num_threads(1)
    seed = torch.Generator().manual_seed(0)
    return [torch.randn(MIB * (1 << 18) // PARTS, generator=seed) for _ in range(PARTS)]


class Heavy(nn.Module):
    def __init__(self, parts: Sequence[torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(32, 32)
        for number, part in enumerate(parts):
            self.register_parameter(f"part_{number}", nn.Parameter(part, requires_grad=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x)
        return y


def loss_of(net: nn.Module, number: int) -> torch.Tensor:
    loss: torch.Tensor = net(torch.full((4, 32), 1.0 + number)).square().mean()
    return loss
