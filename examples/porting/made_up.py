"""Small generated data, so that the examples need no download."""

from collections.abc import Iterator

import torch
from torch.utils.data import Dataset

SHARDS = 16


class Digits(Dataset[tuple[torch.Tensor, int]]):
    """600 images of 64 pixels with their digit; each has new noise whenever it is read."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.prototypes = torch.randn(10, 64, generator=generator)

    def __len__(self) -> int:
        return 600

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.prototypes[index % 10] + torch.randn(64) * 3, index % 10


def records(shard: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The 40 records of one shard, always in the same order: 16 numbers and their noisy mean."""
    generator = torch.Generator().manual_seed(shard)
    for _ in range(40):
        values = torch.randn(16, generator=generator)
        yield values, values.mean(0, keepdim=True) + 0.3 * torch.randn(1, generator=generator)
