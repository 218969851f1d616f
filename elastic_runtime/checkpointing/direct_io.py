"""Writes and reads files past the page cache and hashes them, each on its own threads."""

import errno
import fcntl
import hashlib
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

BLOCK_BYTES = 8 << 20
# Blocks of a file that are being written or read at the same time.
BLOCK_COUNT = 4
# One thread hashes 1.6 GB/s.
HASH_THREADS = 2
# Linux has both. Elsewhere files go through the page cache, and memory has ordinary pages.
O_DIRECT: int = getattr(os, "O_DIRECT", 0)
MADV_HUGEPAGE: int | None = getattr(mmap, "MADV_HUGEPAGE", None)
# The offset of bytes in a file, and the memory that they are read into.
Target = tuple[int, memoryview]
CANCELLED = "the save was cancelled because a rank was lost or left"


class BackgroundWorker:
    """Runs one task at a time in the background.

    It keeps the buffers and threads that a `HashedWriter` needs, so that no save creates them.
    """

    def __init__(self) -> None:
        self.blocks = _make_blocks()
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
        _set_direct(self._descriptor, True)
        self._sum = hashlib.sha256()
        self.position = 0
        # By block: its hash and its write, still under way.
        self._pending: list[list[Future[Any]]] = [[] for _ in range(BLOCK_COUNT)]
        # The block that is being filled, and its bytes so far.
        self._current = 0
        self._filled = 0

    def write(self, data: bytes | memoryview) -> int:
        remaining = memoryview(data)
        while remaining:
            part = remaining[: BLOCK_BYTES - self._filled]
            block = self._worker.blocks[self._current]
            block[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            remaining = remaining[len(part) :]
            if self._filled == BLOCK_BYTES:
                self._submit_block()
        self.position += len(data)
        return len(data)

    def _submit_block(self) -> None:
        """Hash and write the current block, and wait until the next one is free."""
        block = self._worker.blocks[self._current][: self._filled]
        self._pending[self._current] = [
            self._worker.hash_threads.submit(_sha256, block),
            self._worker.write_thread.submit(self._write_block, block),
        ]
        self._current = (self._current + 1) % BLOCK_COUNT
        self._filled = 0
        self._wait_for_current()

    def _wait_for_current(self) -> None:
        """Afterwards the current block has been written, and its hash is in the checksum."""
        pending = self._pending[self._current]
        self._pending[self._current] = []
        results = [future.result() for future in pending]
        if results:
            self._sum.update(results[0])

    def _write_block(self, block: memoryview) -> None:
        while block:
            if self._is_cancelled():
                raise OSError(CANCELLED)
            try:
                block = block[os.write(self._descriptor, block) :]
            except OSError as error:
                if error.errno != errno.EINVAL or not _is_direct(self._descriptor):
                    raise
                # This file system cannot do it, or the end of the file is not a full page.
                _set_direct(self._descriptor, False)

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


def checksum(data: bytes) -> str:
    """The sha256 over the sha256 of each block of `BLOCK_BYTES` bytes.

    Unlike the sha256 of all bytes it can be computed by several threads, and by several ranks.
    """
    starts = range(0, len(data), BLOCK_BYTES)
    return checksum_of_blocks(_sha256(data[start : start + BLOCK_BYTES]) for start in starts)


def checksum_of_blocks(hashes: Iterable[bytes]) -> str:
    """The checksum of a file. `hashes`: of all its blocks, in order."""
    return hashlib.sha256(b"".join(hashes)).hexdigest()


def _sha256(block: bytes | memoryview) -> bytes:
    return hashlib.sha256(block).digest()


def _make_blocks() -> list[memoryview]:
    # mmap aligns them to pages, as direct I/O requires.
    return [memoryview(mmap.mmap(-1, BLOCK_BYTES)) for _ in range(BLOCK_COUNT)]


def _set_direct(descriptor: int, direct: bool) -> None:
    """Let reads and writes go past the page cache, or not, where the file system can do it."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    flags = flags | O_DIRECT if direct else flags & ~O_DIRECT
    with suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)


def _is_direct(descriptor: int) -> bool:
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & O_DIRECT)


def hugepage_buffer(size: int) -> memoryview:
    """Memory for `size` bytes, in huge pages where the kernel has them."""
    memory = mmap.mmap(-1, max(size, 1))
    if MADV_HUGEPAGE is not None:
        memory.madvise(MADV_HUGEPAGE)
    return memoryview(memory)[:size]


def read(path: Path, targets: Sequence[Target]) -> str:
    """The file's checksum; fills each memory of `targets` from its offset in the file.

    What lies beyond the end of the file is left as it was.
    """
    return checksum_of_blocks(read_blocks(path, targets).values())


def block_count(size: int) -> int:
    """How many blocks a file of `size` bytes has."""
    return -(-size // BLOCK_BYTES)


def blocks_of(targets: Iterable[Target]) -> list[int]:
    """The numbers of the blocks that have bytes of these targets."""
    numbers = set[int]()
    for offset, memory in targets:
        numbers.update(range(offset // BLOCK_BYTES, block_count(offset + len(memory))))
    return sorted(numbers)


def read_blocks(
    path: Path, targets: Sequence[Target], numbers: Sequence[int] | None = None
) -> dict[int, bytes]:
    """The sha256 of these blocks of the file (None: of all), by number.

    As far as these blocks contain them, it fills the targets as `read` does.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _set_direct(descriptor, True)
        if numbers is None:
            numbers = range(block_count(os.fstat(descriptor).st_size))
        return dict(zip(numbers, _read_blocks(descriptor, targets, numbers), strict=True))
    finally:
        os.close(descriptor)


def _read_blocks(
    descriptor: int, targets: Sequence[Target], numbers: Sequence[int]
) -> Iterator[bytes]:
    """The hash of each block, in this order."""
    blocks = _make_blocks()
    hashes = deque[Future[bytes]]()
    with ThreadPoolExecutor(2) as read_threads, ThreadPoolExecutor(HASH_THREADS) as hash_threads:
        reads = deque(
            read_threads.submit(_fill, descriptor, block, number * BLOCK_BYTES, None)
            for block, number in zip(blocks, numbers, strict=False)
        )
        for turn, number in enumerate(numbers):
            data = reads.popleft().result()
            hashes.append(hash_threads.submit(_sha256, data))
            _copy_to_targets(data, number * BLOCK_BYTES, targets)
            if turn + BLOCK_COUNT < len(numbers):
                # Read on into the same block as soon as it is hashed.
                next_offset = numbers[turn + BLOCK_COUNT] * BLOCK_BYTES
                block = blocks[turn % BLOCK_COUNT]
                reads.append(read_threads.submit(_fill, descriptor, block, next_offset, hashes[-1]))
            if len(hashes) == BLOCK_COUNT:
                yield hashes.popleft().result()
    for block_hash in hashes:
        yield block_hash.result()


def _copy_to_targets(data: memoryview, offset: int, targets: Sequence[Target]) -> None:
    """Copy the bytes of each target that `data`, at this offset of the file, contains."""
    for target_offset, memory in targets:
        first = max(target_offset, offset)
        last = min(target_offset + len(memory), offset + len(data))
        if first < last:
            memory[first - target_offset : last - target_offset] = data[
                first - offset : last - offset
            ]


def _fill(
    descriptor: int, block: memoryview, offset: int, after: Future[bytes] | None
) -> memoryview:
    """The part of `block` that was filled with the file's bytes from `offset` on.

    `after`: the hash of what the block held before, which must be done first.
    """
    if after:
        after.result()
    filled = 0
    is_cached = False
    while filled < len(block):
        try:
            count = os.preadv(descriptor, [block[filled:]], offset + filled)
        except OSError as error:
            if error.errno != errno.EINVAL or is_cached:
                raise
            # The other thread may have done the same, so the flag is no proof.
            _set_direct(descriptor, False)
            is_cached = True
            continue
        if not count:
            break
        filled += count
    return block[:filled]
