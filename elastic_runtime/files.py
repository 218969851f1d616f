"""Files written and read from front to back and hashed meanwhile, each on a thread of its own; written past the page cache."""

import errno
import fcntl
import hashlib
import mmap
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

BLOCK, BLOCKS = 2 << 20, 4  # bytes of a block, and how many are on their way


class Desk:
    """Blocks and threads for one file at a time: kept from file to file, so that a new one costs neither."""

    def __init__(self) -> None:
        self.blocks = [memoryview(mmap.mmap(-1, BLOCK)) for _ in range(BLOCKS)]  # direct writes need whole pages
        self.hashing, self.writing = ThreadPoolExecutor(1, "hash"), ThreadPoolExecutor(1, "write")


class Out:
    """A new file. `write`, then `end`, and `close` in any case. `position`: where the next byte goes.

    Raises OSError from any of them, also once the work is `given_up`.
    """

    def __init__(self, path: Path, desk: Desk, given_up: Callable[[], bool]) -> None:
        self._desk, self._given_up = desk, given_up
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        self._direct = _past_cache(self._descriptor, True)
        self._hash, self.position = hashlib.sha256(), 0
        self._works: list[list[Future[Any]]] = [[] for _ in range(BLOCKS)]
        self._at, self._filled = 0, 0

    def write(self, data: bytes | memoryview) -> int:
        left = memoryview(data)
        while left:
            part = left[: BLOCK - self._filled]
            self._desk.blocks[self._at][self._filled : self._filled + len(part)] = part
            self._filled, left = self._filled + len(part), left[len(part) :]
            if self._filled == BLOCK:
                self._pass_on()
        self.position += len(data)
        return len(data)

    def _pass_on(self) -> None:
        block = self._desk.blocks[self._at][: self._filled]
        self._works[self._at] = [self._desk.hashing.submit(self._hash.update, block), self._desk.writing.submit(self._put, block)]
        self._at, self._filled = (self._at + 1) % BLOCKS, 0
        for work in self._works[self._at]:
            work.result()

    def _put(self, block: memoryview) -> None:
        while block:
            if self._given_up():
                raise OSError("it was given up, for a rank was lost or left")
            try:
                block = block[os.write(self._descriptor, block) :]
            except OSError as error:
                if error.errno != errno.EINVAL or not self._direct:
                    raise
                self._direct = _past_cache(self._descriptor, False)  # this file system cannot, or the file's end is no whole page

    def end(self) -> str:
        """Durable afterwards; its sha256."""
        self._pass_on()
        for works in self._works:
            for work in works:
                work.result()
        os.fsync(self._descriptor)
        return self._hash.hexdigest()

    def close(self) -> None:
        for works in self._works:
            wait(works)  # the blocks are the next file's
        os.close(self._descriptor)


def _past_cache(descriptor: int, wished: bool) -> bool:
    """Whether writes go past the page cache now."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT if wished else flags & ~os.O_DIRECT)
    except OSError:
        return False
    return wished


def room(size: int) -> memoryview:
    """Memory for `size` bytes, in large pages where the kernel has them."""
    memory = mmap.mmap(-1, max(size, 1))
    memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)[:size]


def read(path: Path, wanted: Sequence[tuple[int, memoryview]]) -> str:
    """The file's sha256; each memory of `wanted` is filled from its offset on, as far as the file goes. None overlap."""
    with open(path, "rb", buffering=0) as file, ThreadPoolExecutor(1) as hashing:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
        found, works = hashlib.sha256(), list[Future[None]]()
        for memory in _in_order(wanted, os.fstat(file.fileno()).st_size):
            left = memory
            while left and (got := file.readinto(left[:BLOCK])):
                works.append(hashing.submit(found.update, left[:got]))
                left = left[got:]
        for work in works:
            work.result()
        return found.hexdigest()


def _in_order(wanted: Sequence[tuple[int, memoryview]], size: int) -> Iterable[memoryview]:
    """Memory for every byte of a file: what is wanted, and what lies between."""
    at = 0
    for begin, memory in sorted(wanted, key=lambda w: w[0]):
        for gap in range(at, begin, BLOCK):
            yield room(min(BLOCK, begin - gap))
        yield memory
        at = begin + len(memory)
    for gap in range(at, size, BLOCK):
        yield room(min(BLOCK, size - gap))
