"""The training of all levels: a tiny model, and steps of 0.4 s with four ranks, 0.8 s with two."""

import time

import torch

MICRO_BATCHES = 8
MICRO_BATCH_S = 0.2
"""How long a micro-batch takes at least."""
SAVE_EVERY = 10
"""Steps."""
ON_SIGNAL = "on-signal"
"""Argument of plain.py: save and end when told to."""


def model() -> torch.nn.Module:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return torch.nn.Linear(8, 1)


def optimizer_of(net: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(net.parameters(), lr=0.01)


def loss_of(net: torch.nn.Module) -> torch.Tensor:
    """Of one micro-batch."""
    time.sleep(MICRO_BATCH_S)
    x = torch.randn(4, 8)
    loss: torch.Tensor = (net(x) - x.sum(1, keepdim=True)).square().mean()
    return loss
