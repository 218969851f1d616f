"""The parts of one rank's training, which its session creates and which live as long as it does."""

from dataclasses import dataclass

from elastic_runtime.checkpointing.saver import Saver
from elastic_runtime.strategies.base import Strategy
from elastic_runtime.strategies.module_buffers import ModuleBuffers
from elastic_runtime.training.journal import Journal
from elastic_runtime.training.rank_lifecycle import RankLifecycle
from elastic_runtime.training.state import TrainingState


@dataclass(frozen=True)
class Parts:
    state: TrainingState
    strategy: Strategy
    buffers: ModuleBuffers
    saver: Saver
    journal: Journal
    lifecycle: RankLifecycle
