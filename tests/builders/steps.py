"""Steps and ranks, as a data source sees them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SAMPLES = 23


@dataclass
class Plan:
    """What a session knows about its rank and its batches."""

    rank: int = 0
    world: int = 1
    seed: int = 0
    samples: int = SAMPLES
    micro_batches: int = 4
    micro_batch_size: int = 3


@dataclass
class Batch:
    number: int
    contributes: bool = True


@dataclass
class Step:
    number: int
    # The micro-batches of this rank.
    owned: Iterable[int]
    # Further passes, which do not contribute.
    passes_without_weight: int = 0

    def __iter__(self) -> Iterator[Batch]:
        yield from (Batch(number) for number in self.owned)
        yield from (Batch(0, contributes=False) for _ in range(self.passes_without_weight))
