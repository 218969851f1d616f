"""PURE. Decides from which step the ranks of a sharded job continue after some of them were lost.

Each rank reports the shards of the newest state that it holds, and the shards in its peer copies
of earlier steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elastic_runtime.state import reshard_plan
from elastic_runtime.state.reshard_plan import Shard


@dataclass(frozen=True, slots=True)
class Report:
    """What one rank holds."""

    live: Sequence[Shard]
    # Step → shards.
    copies: Mapping[int, Sequence[Shard]]

    def as_plain_data(self) -> list[Any]:
        """Lists and numbers only, as JSON holds them."""
        return [list(self.live), [[step, *shards] for step, shards in self.copies.items()]]

    @classmethod
    def from_plain_data(cls, data: Sequence[Any]) -> "Report":
        live, copies = data
        return cls(_as_shards(live), {step: _as_shards(shards) for step, *shards in copies})


def _as_shards(data: Sequence[Any]) -> list[Shard]:
    return [Shard(*shard) for shard in data]


@dataclass(frozen=True, slots=True)
class Source:
    """The shards to continue from, by rank."""

    shards: dict[int, list[Shard]]
    # The step of the peer copies; None for the live state.
    copied_step: int | None = None

    @property
    def first_rank(self) -> int:
        """The rank that also sends what is not split into shards."""
        return min(self.shards)


def choose_source(row_counts: Sequence[int], reports: Sequence[Report]) -> Source | None:
    """The newest state of which every row is on some rank, else None.

    `row_counts`: by tensor. `reports`: by rank.
    """
    live = {rank: list(report.live) for rank, report in enumerate(reports) if report.live}
    if reshard_plan.is_complete(row_counts, live):
        return Source(live)
    for step in sorted({step for report in reports for step in report.copies}, reverse=True):
        copies = {
            rank: list(report.copies[step])
            for rank, report in enumerate(reports)
            if step in report.copies
        }
        if reshard_plan.is_complete(row_counts, copies):
            return Source(copies, step)
    return None
