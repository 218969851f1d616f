"""Decides when to save, and saves in the background.

Every rank copies its own pieces of the state at the end of a step and writes them in the
background. The leading rank orders a save when it is due and the last one has ended; the order
travels with the step's last reduction. In the background it waits until every rank has reported in
the draft that its file is durable, and then publishes the draft as a checkpoint.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

from elastic_runtime import directory_checks
from elastic_runtime.checkpointing import checkpoint_directory, shared_save
from elastic_runtime.checkpointing.best_save import BestSave
from elastic_runtime.checkpointing.hashed_writer import BackgroundWorker
from elastic_runtime.checkpointing.local_saves import LocalSaves
from elastic_runtime.checkpointing.partition import Piece, Writer, rank_pieces
from elastic_runtime.checkpointing.retention import Retention
from elastic_runtime.checkpointing.save_format import Checkpoint
from elastic_runtime.checkpointing.saved_state import SavedState
from elastic_runtime.checkpointing.shared_save import SharedSave
from elastic_runtime.checkpointing.staging import StagingBuffer, without_copy
from elastic_runtime.state.state_tree import State, meta_copy

log = logging.getLogger(__name__)
# How long a step waits for a disk that does not even end a cancelled save.
CANCEL_TIMEOUT_S = 1.0
# The ranks of a machine that do not report meanwhile have copied their pieces after this time.
COPY_SPREAD_S = 0.1


class SaveOrder(IntEnum):
    """Where all ranks save the state after a step; BEST: the state before it, as SHARED."""

    NONE = 0
    LOCAL = 1
    SHARED = 2
    BEST = 3


class Saver:
    """Saves to `directory` every `every` steps (0: only on request), and to `local` if given.

    `report`: called with figures and messages for the job's status.
    `durable_step`: the step of the newest checkpoint that this rank knows to be durable, or -1.
    """

    def __init__(
        self,
        directory: Path | None,
        every: int,
        report: Callable[..., None],
        local: LocalSaves | None = None,
        retention: Retention | None = None,
    ) -> None:
        self.directory = directory
        self.every = every
        self._retention = retention or Retention()
        self.durable_step = -1
        self._report = report
        self._local = local
        self._is_due = False
        # How many requests have been served.
        self._requests = 0
        # The last save: its step, when it began, and whether it was reported as too slow.
        self._last_step = -1
        self._began = 0.0
        self._is_reported_slow = False
        self._writer = Writer()
        # Whether all ranks have copied their pieces of the last save.
        self._copied = threading.Event()
        self._staging = StagingBuffer()
        self._worker = BackgroundWorker()
        self.saved = SavedState(
            directory, local, self._worker.start, self._report_durable, lambda: self.durable_step
        )
        self.best = BestSave(directory, report, self._worker.wait, lambda: self.durable_step)
        # Of the last save.
        self._cancelled = threading.Event()

    # --- when -------------------------------------------------------------------------------------

    def enter_generation(self, writer: Writer, *, writer_left: bool) -> None:
        """A new generation has formed.

        A save of the last one continues, unless one of its writers left: then it is due again.
        """
        if writer_left:
            self._cancelled.set()
            # This may repeat a save that another leading rank has ended.
            self._is_due = self._is_due or self._last_step > self.durable_step
        self._writer = writer

    def request(self) -> None:
        """Make a save due."""
        self._is_due = True

    def order_for(self, step: int, requests: int) -> SaveOrder:
        """Where the state after `step` is to be saved. For the leading rank.

        `requests`: how many saves users have requested so far.
        """
        is_requested = requests > self._requests
        self._requests = max(requests, self._requests)
        if not self.directory:
            if is_requested:
                # The step: the job trains on with this message.
                message = f"nothing was saved after step {step}: give the session checkpoint="
                self._report(save_message=message)
            return SaveOrder.NONE
        is_periodic = self.every > 0 and step % self.every == 0
        self._is_due = self._is_due or is_requested or is_periodic
        if self._is_due and (not self._worker.is_busy or self._cancelled.is_set()):
            return SaveOrder.SHARED
        if self._is_due:
            self._report_slow_save()
        if self._local and self._local.is_due(step):
            return SaveOrder.LOCAL
        return SaveOrder.NONE

    def _report_slow_save(self) -> None:
        limit_s = shared_save.PART_TIMEOUT_S
        if self._is_reported_slow or time.monotonic() - self._began <= limit_s:
            return
        self._is_reported_slow = True
        self._report(
            save_message=(
                f"step {self._last_step} is still being written to {self.directory}, after "
                f"{limit_s:g} s"
            )
        )

    def is_needed(self, step: int) -> bool:
        """Whether the state after `step` is not durable yet, once the current save has ended. For
        the leading rank, between two steps."""
        self._worker.wait()
        # The script may have measured it behind the last commit.
        self.best.is_due(step)
        return self.directory is not None and self.durable_step != step

    def newest_step(self) -> int:
        """The newest checkpoint by its name; -1 if there is none or the directory is unreadable."""
        if not self.directory:
            return -1
        try:
            return checkpoint_directory.newest_step(self.directory)
        except OSError as error:
            _log_unlistable(self.directory, error)
            return -1

    def refusal_mistakes(self) -> Iterator[str]:
        """Of directories that do not let a job save that has no checkpoint yet.

        Those of one that has saved could be written, and may be again. On every rank: each writes
        its own part.
        """
        if self.directory and self.newest_step() < 0:
            yield from directory_checks.refusal_mistakes("checkpoint", self.directory)
            if self._local:
                yield from directory_checks.refusal_mistakes("local_checkpoint", self._local.disk)

    # --- save -------------------------------------------------------------------------------------

    def save_in_background(
        self, step: int, state: Callable[[], State], order: SaveOrder = SaveOrder.SHARED
    ) -> None:
        """Copy this rank's pieces now and write them in the background.

        `state`: returns the live state. Every rank calls this after the same step.
        """
        if not self.directory:
            return
        began = time.monotonic()
        live = state()
        if order == SaveOrder.LOCAL:
            if self._local:
                skeleton = meta_copy(live) if self._writer.rank == 0 else {}
                self._local.save_in_background(step, live, skeleton, self._writer)
            return
        # The leading rank's last save has ended, so nobody needs what this rank still writes of it.
        self._cancelled.set()
        has_ended = self._worker.wait(CANCEL_TIMEOUT_S)
        if self._worker.has_waiting_task:
            # A step waits for no disk, and parts must not pile up. The other ranks wait for this
            # part in vain, in the background. A new event, so that the leading rank orders no save
            # at every step: the next is ordered when the disk responds.
            self._cancelled = threading.Event()
            self._report(
                save_message=(
                    f"the part of rank {self._writer.rank} of step {self._last_step} is still "
                    f"being written to {self.directory}"
                )
            )
            return
        if not has_ended:
            # The other buffer is still being written; this part follows it.
            self._staging = StagingBuffer()
        self._start_save(step, live, began, self._staging.copy)

    def save_and_wait(self, step: int, state: Callable[[], State]) -> None:
        """Save between two steps, while no rank trains.

        Afterwards this rank's part is durable, on the leading rank the whole checkpoint; or the
        reason why not has been reported.
        """
        if self.directory:
            self._cancelled.set()
            self._worker.wait()
            self._start_save(step, state(), time.monotonic(), without_copy)
            self.begin_writing()
            self._worker.wait()

    def _start_save(
        self,
        step: int,
        live: State,
        began: float,
        stage: Callable[[Sequence[Piece]], Sequence[Piece]],
    ) -> None:
        assert self.directory
        writer = self._writer
        cancelled = self._cancelled = threading.Event()
        copied = self._copied = threading.Event()
        self._is_due = False
        self._last_step = step
        self._began = began
        self._is_reported_slow = False
        pieces = rank_pieces(live, writer.rank, writer.world, writer.shard_group_size)
        save = SharedSave(
            self.directory,
            step,
            writer,
            stage(pieces),
            meta_copy(live) if writer.rank == 0 else {},
            self._retention,
            lambda: cancelled.is_set() or writer.is_aborted(),
        )
        self._worker.start(self._run, save, time.monotonic() - began, copied)

    def begin_writing(self) -> None:
        """Every rank has copied its pieces of the last save. Called when all have ended a step."""
        self._copied.set()

    def _run(self, save: SharedSave, stall_s: float, copied: threading.Event) -> None:
        # Ranks of one machine share its cores, and training waits for the slowest copy.
        copied.wait(max(stall_s, COPY_SPREAD_S))
        began = time.monotonic()
        try:
            if checkpoint := save.run(self._worker):
                save_s = time.monotonic() - began
                self.best.mark(checkpoint.step)
                self._report_durable(checkpoint, save_s=save_s, stall_s=stall_s, save_message="")
                log.info("saved", extra={"step": save.step, "path": str(checkpoint.path)})
        except Exception as error:  # noqa: BLE001
            # Whatever it is: training continues, and the status shows the error.
            if message := save.give_up(error):
                self._report(save_message=message)

    def wait(self) -> None:
        """Wait until this rank writes nothing more."""
        self._worker.wait()
        if self._local:
            self._local.wait()

    def _report_durable(self, checkpoint: Checkpoint, **figures: Any) -> None:
        self.durable_step = checkpoint.step
        self._report(durable_step=checkpoint.step, digest=checkpoint.digest, **figures)


def _log_unlistable(directory: Path, error: OSError) -> None:
    log.warning(
        "the checkpoints cannot be listed", extra={"path": str(directory), "reason": str(error)}
    )
