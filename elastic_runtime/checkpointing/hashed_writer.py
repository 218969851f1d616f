"""Writes files past the page cache and hashes them meanwhile, in the background."""

import errno
import hashlib
import mmap
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from elastic_runtime.checkpointing import direct_io
from elastic_runtime.checkpointing.direct_io import BLOCK_COUNT, HASH_THREADS

# What is written past the page cache begins at a multiple of it, in the file and in memory.
PAGE_BYTES = mmap.PAGESIZE
CANCELLED = "the save was cancelled because a rank was lost or left"


class BackgroundWorker:
    """Runs one task at a time in the background.

    It keeps the buffers and threads that a `HashedWriter` needs, so that no save creates them.
    """

    def __init__(self) -> None:
        self.blocks = direct_io.make_blocks()
        self.hash_threads = ThreadPoolExecutor(HASH_THREADS, "hash")
        self.write_thread = ThreadPoolExecutor(1, "write")
        self._task_thread = ThreadPoolExecutor(1, "save")
        self._last_task: Future[None] | None = None
        self._task_before: Future[None] | None = None

    def start(self, task: Callable[..., None], *arguments: Any) -> None:
        """Run `task` as soon as all tasks before it have ended."""
        self._task_before = self._last_task
        self._last_task = self._task_thread.submit(task, *arguments)

    @property
    def has_waiting_task(self) -> bool:
        """Whether the last task has not begun because the one before it still runs."""
        return self._task_before is not None and not self._task_before.done()

    @property
    def is_busy(self) -> bool:
        return self._last_task is not None and not self._last_task.done()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether all tasks have ended, after at most `timeout_s` (None: however long it takes).

        Raises what the last task raised.
        """
        if self._last_task and wait([self._last_task], timeout_s).done:
            self._last_task.result()
        return not self.is_busy


class HashedWriter:
    """Writes a new file and its checksum. Call `write`, then `finish`, and `close` in any case.

    `position`: the offset of the next byte. Each method raises OSError, also when `is_cancelled`
    returns true.
    """

    def __init__(
        self, path: Path, worker: BackgroundWorker, is_cancelled: Callable[[], bool]
    ) -> None:
        self._worker = worker
        self._is_cancelled = is_cancelled
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        direct_io.set_direct(self._descriptor, True)
        self._sum = hashlib.sha256()
        self.position = 0
        # By block: its hash and its write, still under way.
        self._pending: list[list[Future[Any]]] = [[] for _ in range(BLOCK_COUNT)]
        # The block that is being filled: its bytes so far, and where they are in memory.
        self._current = 0
        self._filled = 0
        self._segments: list[memoryview] = []
        # Of the block's own memory, from here on the bytes belong to no segment yet.
        self._own_begin = 0

    def write(self, data: bytes | memoryview) -> int:
        """Append a copy of `data`."""
        remaining = memoryview(data)
        while remaining:
            part = remaining[: direct_io.BLOCK_BYTES - self._filled]
            block = self._worker.blocks[self._current]
            block[self._filled : self._filled + len(part)] = part
            self._add(len(part))
            remaining = remaining[len(part) :]
        return len(data)

    def write_in_place(self, data: memoryview, address: int) -> None:
        """Append `data`, which must not change until `finish` returns: its whole pages are not
        copied.

        `address`: of `data` in memory, in its page where `position` is in the file's page.
        """
        assert address % PAGE_BYTES == self.position % PAGE_BYTES
        head = min(-address % PAGE_BYTES, len(data))
        end = head + (len(data) - head) // PAGE_BYTES * PAGE_BYTES
        self.write(data[:head])
        pages = data[head:end]
        while pages:
            part = pages[: direct_io.BLOCK_BYTES - self._filled]
            self._end_own_segment()
            self._segments.append(part)
            self._own_begin = self._filled + len(part)
            self._add(len(part))
            pages = pages[len(part) :]
        self.write(data[end:])

    def _end_own_segment(self) -> None:
        """What was copied into the block is complete up to here."""
        if self._own_begin < self._filled:
            block = self._worker.blocks[self._current]
            self._segments.append(block[self._own_begin : self._filled])

    def _add(self, size: int) -> None:
        self._filled += size
        self.position += size
        if self._filled == direct_io.BLOCK_BYTES:
            self._submit_block()

    def _submit_block(self) -> None:
        """Hash and write the current block, and wait until the next one is free."""
        self._end_own_segment()
        self._pending[self._current] = [
            self._worker.hash_threads.submit(direct_io.sha256, *self._segments),
            self._worker.write_thread.submit(self._write_segments, self._segments),
        ]
        self._current = (self._current + 1) % BLOCK_COUNT
        self._filled = 0
        self._segments = []
        self._own_begin = 0
        self._wait_for_current()

    def _wait_for_current(self) -> None:
        """Afterwards the current block has been written, and its hash is in the checksum."""
        pending = self._pending[self._current]
        self._pending[self._current] = []
        results = [future.result() for future in pending]
        if results:
            self._sum.update(results[0])

    def _write_segments(self, segments: Sequence[memoryview]) -> None:
        while segments:
            if self._is_cancelled():
                raise OSError(CANCELLED)
            try:
                segments = _behind(segments, os.writev(self._descriptor, segments))
            except OSError as error:
                if error.errno != errno.EINVAL or not direct_io.is_direct(self._descriptor):
                    raise
                # This file system cannot do it, or the end of the file is not a full page.
                direct_io.set_direct(self._descriptor, False)

    def finish(self) -> str:
        """Make the file durable. Returns its checksum."""
        if self._filled:
            self._submit_block()
        for _ in range(BLOCK_COUNT):
            self._wait_for_current()
            self._current = (self._current + 1) % BLOCK_COUNT
        os.fsync(self._descriptor)
        return self._sum.hexdigest()

    def close(self) -> None:
        for pending in self._pending:
            # The next file uses the same blocks.
            wait(pending)
        os.close(self._descriptor)


def _behind(segments: Sequence[memoryview], count: int) -> list[memoryview]:
    """The segments without their first `count` bytes."""
    remaining = []
    for segment in segments:
        skipped = min(count, len(segment))
        count -= skipped
        if skipped < len(segment):
            remaining.append(segment[skipped:])
    return remaining
