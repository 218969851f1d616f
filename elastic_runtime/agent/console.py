"""The console of an agent, written in a thread of its own: a console may block, an agent may not.

An agent that waits for a full pipe would send no heartbeats, and its pod would be taken for lost.
"""

import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress

STDOUT = 1
# Of lines that the console has not taken yet; further ones are dropped.
MAX_WAITING_BYTES = 16 << 20
# How long the end of an agent waits for the console.
FLUSH_S = 2.0
DROPPED = b"elastic_runtime: %d lines are missing here: the console did not take them\n"


class Console:
    """Writes lines to stdout and stderr, in the order in which it gets them."""

    def __init__(self) -> None:
        # (descriptor, text)
        self._waiting = deque[tuple[int, bytes]]()
        self._waiting_bytes = 0
        # Lines by descriptor, since the last one that was not dropped.
        self._dropped = Counter[int]()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def write(self, descriptor: int, lines: Sequence[bytes]) -> None:
        """Never waits. Where lines are dropped, the console gets their number later."""
        with self._changed:
            if self._waiting_bytes >= MAX_WAITING_BYTES:
                self._dropped[descriptor] += len(lines)
                return
            self._append_missing()
            self._append(descriptor, b"".join(lines))
            if not self._thread:
                self._thread = threading.Thread(target=self._run, daemon=True, name="console")
                self._thread.start()

    def flush(self) -> None:
        """Waits until everything is written, but not for a console that blocks."""
        with self._changed:
            self._append_missing()
            self._changed.wait_for(lambda: not self._waiting_bytes, FLUSH_S)

    def _append_missing(self) -> None:
        for descriptor, lines in self._dropped.items():
            self._append(descriptor, DROPPED % lines)
        self._dropped.clear()

    def _append(self, descriptor: int, text: bytes) -> None:
        self._waiting.append((descriptor, text))
        self._waiting_bytes += len(text)
        self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                descriptor, text = self._waiting.popleft()
            # A console that is gone costs only its lines.
            with suppress(OSError):
                _write_all(descriptor, text)
            with self._changed:
                self._waiting_bytes -= len(text)
                self._changed.notify_all()


def _write_all(descriptor: int, text: bytes) -> None:
    """Not by `sys.stdout`: a thread that blocks in it would stop the end of the process."""
    remaining = memoryview(text)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


# A process has one.
CONSOLE = Console()


class ConsoleHandler(logging.Handler):
    """Log records, as lines on stdout."""

    def emit(self, record: logging.LogRecord) -> None:
        CONSOLE.write(STDOUT, [self.format(record).encode() + b"\n"])
