"""Where the tensors of a checkpoint are loaded to."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Protocol

import torch


class Saved(IntEnum):
    """Where the newest checkpoint is. COLLECTED: on the leading rank's own disk only."""

    NOWHERE = 0
    SHARED = 1
    COLLECTED = 2


class Destination(Protocol):
    """What is read of each tensor, and what becomes of it."""

    def rows(self, name: str, shape: Sequence[int]) -> tuple[int, int]:
        """[first, last) of those that are read of a tensor of this shape."""

    def live(self, name: str) -> torch.Tensor | None:
        """Its memory is used if it fits: new memory costs time."""

    def place(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        """What the state has in the place of the rows."""


class WholeTensors:
    """A destination: all rows, into these live tensors where they fit."""

    def __init__(self, live: Mapping[str, torch.Tensor] | None = None) -> None:
        self._live = live or {}

    def rows(self, name: str, shape: Sequence[int]) -> tuple[int, int]:
        return 0, row_count(shape)

    def live(self, name: str) -> torch.Tensor | None:
        return self._live.get(name)

    def place(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        return rows


def row_count(shape: Sequence[int]) -> int:
    """A tensor without dimensions counts as one row."""
    return shape[0] if shape else 1
