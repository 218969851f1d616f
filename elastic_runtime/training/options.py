"""What a script chose when it created its session."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from elastic_runtime import session_checks
from elastic_runtime.checkpointing.local_saves import LocalSaves
from elastic_runtime.checkpointing.retention import Retention
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

    shared: str | Path | None
    shared_every: int
    # On each pod's own disk; used only beside a shared directory.
    local: str | Path | None
    local_every: int
    # As those of Retention, in the shared directory.
    keep: int
    keep_every: int

    def mistakes(self) -> Iterator[str]:
        yield from session_checks.save_mistakes(self.shared, self.local, self.local_every)
        if not self.shared:
            yield from session_checks.unused_mistakes(self.shared_every, self.keep, self.keep_every)

    def make_saver(self, report: Callable[..., None]) -> Saver:
        """`report`: called with figures and messages for the job's status."""
        shared = Path(self.shared) if self.shared else None
        local_saves = None
        if shared and self.local:
            local_saves = LocalSaves(Path(self.local), shared, self.local_every, report)
        retention = Retention(self.keep, self.keep_every)
        return Saver(shared, self.shared_every, report, local_saves, retention)
