"""One save to the shared directory, as one rank makes it in the background."""

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastic_runtime.checkpointing import checkpoint_directory, part_file
from elastic_runtime.checkpointing.hashed_writer import CANCELLED, BackgroundWorker
from elastic_runtime.checkpointing.partition import Piece, Writer
from elastic_runtime.checkpointing.retention import Retention
from elastic_runtime.checkpointing.save_format import Checkpoint, folder_name

log = logging.getLogger(__name__)
# How long the leading rank waits for the others' files, once its own is durable.
PART_TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.01


@dataclass(frozen=True, slots=True)
class SharedSave:
    directory: Path
    step: int
    writer: Writer
    # What this rank writes.
    pieces: Sequence[Piece]
    # The state without its tensors' data, on the leading rank; empty on others.
    skeleton: dict[str, Any]
    # Of the checkpoints in the directory.
    retention: Retention
    is_cancelled: Callable[[], bool]

    @property
    def draft(self) -> Path:
        return self.directory / f".{folder_name(self.step)}.{self.writer.generation_name}"

    def run(self, worker: BackgroundWorker) -> Checkpoint | None:
        """Afterwards this rank's file is durable.

        The leading rank also waits for the other ranks' files and returns the checkpoint; others
        return None. Raises OSError.
        """
        is_leading = self.writer.rank == 0
        if is_leading:
            checkpoint_directory.remove_drafts(self.directory, keep=self.draft)
        items = part_file.pack_items(self.skeleton) if self.skeleton else {}
        part_file.write_part(
            self.draft, self.writer.rank, self.pieces, items, worker, self.is_cancelled
        )
        if not is_leading:
            return None
        self._wait_for_parts()
        return checkpoint_directory.publish(
            self.directory, self.draft, self.step, self.writer.world, self.retention
        )

    def _wait_for_parts(self) -> None:
        deadline = time.monotonic() + PART_TIMEOUT_S
        while missing := part_file.missing_parts(self.draft, self.writer.world):
            time.sleep(POLL_INTERVAL_S)
            if self.is_cancelled():
                raise OSError(CANCELLED)
            if time.monotonic() > deadline:
                ranks = ", ".join(map(str, missing))
                raise part_file.MissingPart(
                    f"there is no part of rank {ranks} after {PART_TIMEOUT_S:g} s: its log says why"
                )

    def give_up(self, error: Exception) -> str:
        """`run` has failed with `error`. For the status; empty if nobody need act on this rank.

        Afterwards no rank waits for this save any longer. Called where the error is handled.
        """
        # The leading rank has given up, and reports why.
        is_removed = isinstance(error, FileNotFoundError) and not os.path.exists(self.draft)
        is_cancelled = self.is_cancelled() or (self.writer.rank > 0 and is_removed)
        self._clean_up(error)
        if is_cancelled:
            # The ranks that are left repeat it.
            log.info("save given up", extra={"step": self.step, "reason": str(error)})
            return ""
        log.exception("save failed")
        names_rank = self.writer.world == 1 or isinstance(error, part_file.MissingPart)
        where = "" if names_rank else f" on rank {self.writer.rank}"
        return f"saving step {self.step} to {self.directory} failed{where}: {error}"

    def _clean_up(self, error: Exception) -> None:
        if self.writer.rank == 0:
            shutil.rmtree(self.draft, ignore_errors=True)
            return
        try:
            part_file.refuse_part(self.draft, self.writer.rank, str(error))
        except OSError as refusal_error:
            log.warning(
                "the leading rank cannot be told that this rank's part is missing",
                extra={"draft": str(self.draft), "reason": str(refusal_error)},
            )
            threading.Thread(target=self._refuse_later, args=(str(error),), daemon=True).start()

    def _refuse_later(self, reason: str) -> None:
        """The leading rank may be able to write a moment later, and then waits for this part.

        Tries until the next save begins: no rank waits for this one then.
        """
        deadline = time.monotonic() + PART_TIMEOUT_S
        while not self.is_cancelled() and time.monotonic() < deadline:
            # a draft that is not there is the leading rank's to make
            if self.draft.exists():
                with suppress(OSError):
                    part_file.refuse_part(self.draft, self.writer.rank, reason)
                    return
            time.sleep(POLL_INTERVAL_S)
