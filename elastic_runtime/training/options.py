"""What a script chose when it created its session."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from elastic_runtime.checkpointing.local_saves import LocalSaves
from elastic_runtime.checkpointing.saver import Saver


@dataclass
class DataOptions:
    """The numbers that decide which samples a step takes."""

    # Size of the dataset; 0 if the samples come from streams.
    samples: int
    micro_batches: int
    micro_batch_size: int
    seed: int


@dataclass(frozen=True)
class CheckpointOptions:
    """Directories to save to, and the number of steps between two saves (0: only on request)."""

    shared: Path | None
    shared_every: int
    # On each pod's own disk; used only beside a shared directory.
    local: Path | None
    local_every: int

    def make_saver(self, report: Callable[..., None]) -> Saver:
        """`report`: called with figures and messages for the job's status."""
        local_saves = None
        if self.shared and self.local:
            local_saves = LocalSaves(self.local, self.shared, self.local_every, report)
        return Saver(self.shared, self.shared_every, report, local_saves)
