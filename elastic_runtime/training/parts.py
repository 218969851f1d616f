"""The parts of one rank's training, which its session creates and which live as long as it does."""

import logging
from dataclasses import dataclass, field

from elastic_runtime.checkpointing.saver import Saver
from elastic_runtime.strategies.base import Strategy
from elastic_runtime.strategies.module_buffers import ModuleBuffers
from elastic_runtime.training.journal import Journal
from elastic_runtime.training.rank_lifecycle import RankLifecycle
from elastic_runtime.training.state import TrainingState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parts:
    state: TrainingState
    strategy: Strategy
    buffers: ModuleBuffers
    saver: Saver
    journal: Journal
    lifecycle: RankLifecycle
    _warnings: set[str] = field(default_factory=set)

    def warn_once(self, warning: str) -> None:
        """Log what all ranks find, on the leading one, the first time only."""
        if self.lifecycle.rank == 0 and warning not in self._warnings:
            self._warnings.add(warning)
            log.warning(warning)
