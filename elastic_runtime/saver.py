"""When to save, and on which thread: staged in memory at a step's end, written in the background."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from elastic_runtime import checkpoint
from elastic_runtime.reshard import put_together, take_apart

log = logging.getLogger(__name__)


class Saver:
    def __init__(self, directory: Path | None, every: int, said: Callable[..., None]) -> None:
        self.directory, self.every, self._said = directory, every, said
        self._wished = 0
        self._writing: threading.Thread | None = None

    def after_step(self, step: int, wished: int, state: Callable[[], dict[str, Any] | None]) -> None:
        """Save when the interval or a wish says so. Every rank learns the same `wished`, so every rank keeps count."""
        asked, self._wished = wished > self._wished, max(self._wished, wished)
        if asked or (self.every and step % self.every == 0):
            self.soon(step, state)

    def soon(self, step: int, state: Callable[[], dict[str, Any] | None]) -> None:
        """A copy is taken now and written in the background; skipped while the last one is still being written.

        `state` is asked on every rank, for it may have to be gathered; whoever gets one writes it.
        """
        whole = state() if self.directory else None
        if whole is None or (self._writing and self._writing.is_alive()):
            return
        tensors: list[torch.Tensor] = []
        skeleton = take_apart(whole, tensors)
        staged = put_together(skeleton, [tensor.clone() for tensor in tensors])
        self._writing = threading.Thread(target=self._write, args=(step, staged), name="save")
        self._writing.start()

    def now(self, step: int, state: Callable[[], dict[str, Any] | None]) -> None:
        """Durable when this returns, or said why not."""
        whole = state() if self.directory else None
        if self._writing:
            self._writing.join()
        if whole is not None:
            self._write(step, whole)

    def load(self) -> dict[str, Any] | None:
        saved = checkpoint.newest(self.directory) if self.directory else None
        if saved:
            self._said(durable_step=saved.step, digest=saved.digest)
        return checkpoint.load(saved) if saved else None

    def _write(self, step: int, state: dict[str, Any]) -> None:
        assert self.directory
        began = time.monotonic()
        try:
            saved = checkpoint.save(self.directory, step, state)
        except OSError as error:  # training goes on; the status says what is wrong
            log.exception("save failed")
            self._said(message=str(error))
            return
        self._said(durable_step=step, digest=saved.digest, save_s=time.monotonic() - began, message="")
