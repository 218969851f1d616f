"""The machine's own speeds, in which bounds are stated.

One core's copy into warm memory, and the disk without the page cache.
"""

import mmap
import os
import time
from pathlib import Path

# Bytes.
SIZE = 256 << 20


def memcpy_bytes_s(size: int = SIZE) -> float:
    """Copy speed of one core into memory that is mapped already: the best of five."""
    source = memoryview(bytearray(size))
    target = memoryview(bytearray(size))
    target[:] = source
    best = 0.0
    for _ in range(5):
        began = time.perf_counter()
        target[:] = source
        best = max(best, size / (time.perf_counter() - began))
    return best


def drop_cached(path: Path) -> None:
    """Afterwards the file's pages are on disk and not in memory. No other file is affected."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def write_s(path: Path, size: int, block: int = 8 << 20) -> float:
    """Seconds until `size` bytes are durable, written without the page cache."""
    with mmap.mmap(-1, block) as aligned:
        aligned.write(os.urandom(1 << 20) * (block >> 20))
        began = time.perf_counter()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o600)
        try:
            for _ in range(size // block):
                os.write(descriptor, aligned)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return time.perf_counter() - began


def read_s(path: Path, block: int = 8 << 20) -> float:
    """Seconds to read a file that is not cached: the faster of direct and buffered I/O."""
    took = []
    for flags in (os.O_DIRECT, 0):
        drop_cached(path)
        with mmap.mmap(-1, block) as aligned:
            began = time.perf_counter()
            descriptor = os.open(path, os.O_RDONLY | flags)
            try:
                while os.readv(descriptor, [aligned]):
                    pass
            finally:
                os.close(descriptor)
            took.append(time.perf_counter() - began)
    return min(took)
