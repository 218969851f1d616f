"""When to save, and on which thread: every rank stages its own pieces at a step's end and writes them in the background.

The leading rank waits, in the background too, until every rank has said in the draft that its file is durable; then it ends the save.
"""

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from elastic_runtime import checkpoint, restore
from elastic_runtime.pieces import Piece, owned
from elastic_runtime.reshard import put_together, take_apart
from elastic_runtime.staging import Stage

log = logging.getLogger(__name__)
PATIENCE_S = 120.0  # for the other ranks' files, once the leading rank's own is durable
LOOK_S = 0.01


@dataclass(frozen=True, slots=True)
class Place:
    """Where this rank stands among the writers. `name`: of their generation, in this run of the job and no other."""

    rank: int
    world: int
    shards: int
    name: str


class Saver:
    def __init__(self, directory: Path | None, every: int, said: Callable[..., None]) -> None:
        self.directory, self.every, self._said = directory, every, said
        self._wished, self._begun = 0, 0
        self._place = Place(0, 1, 0, str(os.getpid()))
        self._writing: threading.Thread | None = None
        self._lost = threading.Event()
        self._stage = Stage()

    def entered(self, place: Place, *, abrupt: bool) -> None:
        """A new generation. A save that the last one began goes on, unless some of its writers may be gone: `abrupt`, or fewer now."""
        if abrupt or place.world < self._place.world:
            self._lost.set()
        self._place, self._begun, self._lost = place, 0, threading.Event()

    def after_step(self, step: int, wished: int, state: Callable[[], dict[str, Any]]) -> None:
        """Save when the interval or a wish says so. Every rank learns the same `wished`, so every rank keeps count."""
        asked, self._wished = wished > self._wished, max(self._wished, wished)
        if asked or (self.every and step % self.every == 0):
            self.soon(step, state)

    def soon(self, step: int, state: Callable[[], dict[str, Any]]) -> None:
        """This rank's pieces are copied now and written in the background; not while the last ones are still being written.

        `state`: the live one; every rank calls this after the same step.
        """
        if not self.directory:
            return
        self._begun += 1
        draft = self.directory / f".{checkpoint.folder(step)}.{self._place.name}-{self._begun}"
        if self._writing and self._writing.is_alive():
            log.warning("save skipped: the last one is still being written", extra={"step": step})
            self._refuse(draft, "it is still writing the save before")
            return
        began, live, place = time.monotonic(), state(), self._place
        pieces = self._stage.copy(owned(live, place.rank, place.world, place.shards))
        form = _form(live) if place.rank == 0 else {}
        stall_s = time.monotonic() - began
        self._writing = threading.Thread(target=self._write, args=(step, draft, place, pieces, form, stall_s, self._lost), name="save")
        self._writing.start()

    def now(self, step: int, state: Callable[[], dict[str, Any]]) -> None:
        """This rank's part is durable when this returns, on the leading rank the whole save; or it was said why not."""
        self._join()
        self.soon(step, state)
        self._join()

    def _join(self) -> None:
        if self._writing:
            self._writing.join()

    def load(self) -> dict[str, Any] | None:
        saved = restore.newest(self.directory) if self.directory else None
        if saved:
            self._said(durable_step=saved.step, digest=saved.digest)
        return restore.load(saved) if saved else None

    def _write(
        self, step: int, draft: Path, place: Place, pieces: Sequence[Piece], form: dict[str, Any], stall_s: float, lost: threading.Event
    ) -> None:
        assert self.directory
        began = time.monotonic()
        try:
            if place.rank == 0:
                checkpoint.remove_drafts(self.directory, place.name)
            checkpoint.write_part(draft, place.rank, pieces, checkpoint.items(form) if form else {})
            if place.rank == 0:
                self._await_parts(draft, place.world, lost)
                saved = checkpoint.conclude(self.directory, draft, step)
                self._said(durable_step=step, digest=saved.digest, save_s=time.monotonic() - began, stall_s=stall_s, message="")
        except OSError as error:  # training goes on; the status says what is wrong
            log.exception("save failed")
            if place.rank == 0:
                shutil.rmtree(draft, ignore_errors=True)
            else:
                self._refuse(draft, str(error))
            self._said(message=f"saving step {step} to {self.directory} failed: {error}")

    def _await_parts(self, draft: Path, world: int, lost: threading.Event) -> None:
        until = time.monotonic() + PATIENCE_S
        while not checkpoint.parts_said(draft, world):
            if lost.wait(LOOK_S) or time.monotonic() > until:
                raise OSError("a rank was lost or left before it had written its part")

    def _refuse(self, draft: Path, why: str) -> None:
        try:
            checkpoint.refuse_part(draft, self._place.rank, why)
        except OSError as error:
            log.warning("the other ranks cannot be told", extra={"draft": str(draft), "reason": str(error)})


def _form(state: dict[str, Any]) -> dict[str, Any]:
    """The state with tensors that have a shape and no memory."""
    tensors: list[torch.Tensor] = []
    skeleton = take_apart(state, tensors)
    formed: dict[str, Any] = put_together(skeleton, [torch.empty(t.shape, dtype=t.dtype, device="meta") for t in tensors])
    return formed
