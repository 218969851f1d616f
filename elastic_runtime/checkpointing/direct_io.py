"""Reads files past the page cache and hashes them meanwhile; what reading and writing share.

`hashed_writer` writes them.
"""

import errno
import fcntl
import hashlib
import mmap
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

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


def checksum(data: bytes) -> str:
    """The sha256 over the sha256 of each block of `BLOCK_BYTES` bytes.

    Unlike the sha256 of all bytes it can be computed by several threads, and by several ranks.
    """
    starts = range(0, len(data), BLOCK_BYTES)
    return checksum_of_blocks(sha256(data[start : start + BLOCK_BYTES]) for start in starts)


def checksum_of_blocks(hashes: Iterable[bytes]) -> str:
    """The checksum of a file. `hashes`: of all its blocks, in order."""
    return hashlib.sha256(b"".join(hashes)).hexdigest()


def sha256(*segments: bytes | memoryview) -> bytes:
    """Of all of them, one after the other."""
    total = hashlib.sha256()
    for segment in segments:
        total.update(segment)
    return total.digest()


def make_blocks() -> list[memoryview]:
    # mmap aligns them to pages, as direct I/O requires.
    return [memoryview(mmap.mmap(-1, BLOCK_BYTES)) for _ in range(BLOCK_COUNT)]


def set_direct(descriptor: int, direct: bool) -> None:
    """Let reads and writes go past the page cache, or not, where the file system can do it."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    flags = flags | O_DIRECT if direct else flags & ~O_DIRECT
    with suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)


def is_direct(descriptor: int) -> bool:
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & O_DIRECT)


def hugepage_buffer(size: int) -> memoryview:
    """Memory for `size` bytes, in huge pages where the kernel has them."""
    # Memory that is shared with forked processes rarely gets huge pages.
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
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
        set_direct(descriptor, True)
        with naming(path):
            if numbers is None:
                numbers = range(block_count(os.fstat(descriptor).st_size))
            return dict(zip(numbers, _read_blocks(descriptor, targets, numbers), strict=True))
    finally:
        os.close(descriptor)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError that is raised meanwhile names this file, as that of `open` does."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def _read_blocks(
    descriptor: int, targets: Sequence[Target], numbers: Sequence[int]
) -> Iterator[bytes]:
    """The hash of each block, in this order."""
    blocks = make_blocks()
    hashes = deque[Future[bytes]]()
    with ThreadPoolExecutor(2) as read_threads, ThreadPoolExecutor(HASH_THREADS) as hash_threads:
        reads = deque(
            read_threads.submit(_fill, descriptor, block, number * BLOCK_BYTES, None)
            for block, number in zip(blocks, numbers, strict=False)
        )
        for turn, number in enumerate(numbers):
            data = reads.popleft().result()
            hashes.append(hash_threads.submit(sha256, data))
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
            set_direct(descriptor, False)
            is_cached = True
            continue
        if not count:
            break
        filled += count
    return block[:filled]
