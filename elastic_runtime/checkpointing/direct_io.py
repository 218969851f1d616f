"""Files written and read from front to back and hashed meanwhile, each on threads of its own;
written past the page cache."""

import errno
import fcntl
import hashlib
import mmap
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

# bytes of a block, and how many are on their way
BLOCK = 8 << 20
BLOCKS = 4
# threads; one keeps up with 1.6 GB/s
HASHING = 2


class Desk:
    """One piece of work at a time in the background, with blocks and threads for one file at a
    time: kept, so that none is made anew."""

    def __init__(self) -> None:
        self.blocks = _blocks()
        self.hashing, self.writing = (
            ThreadPoolExecutor(HASHING, "hash"),
            ThreadPoolExecutor(1, "write"),
        )
        self._working = ThreadPoolExecutor(1, "save")
        self._work: Future[None] | None = None
        self._before: Future[None] | None = None

    def start(self, work: Callable[..., None], *words: Any) -> None:
        """`work` begins when the work before it is over."""
        self._before, self._work = self._work, self._working.submit(work, *words)

    @property
    def waiting(self) -> bool:
        """Whether the newest work has not begun."""
        return self._before is not None and not self._before.done()

    @property
    def busy(self) -> bool:
        return self._work is not None and not self._work.done()

    def settle(self, within_s: float | None = None) -> bool:
        """Whether the work is over, waited for as long as it takes or `within_s`. Raises what it
        raised."""
        if self._work and wait([self._work], within_s).done:
            self._work.result()
        return not self.busy


class Out:
    """A new file. `write`, then `end`, and `close` in any case. `position`: where the next byte
    goes.

    Raises OSError from any of them, also once the work is `given_up`.
    """

    def __init__(self, path: Path, desk: Desk, given_up: Callable[[], bool]) -> None:
        self._desk = desk
        self._given_up = given_up
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        _past_cache(self._descriptor, True)
        self._sum = hashlib.sha256()
        self.position = 0
        self._works: list[list[Future[Any]]] = [[] for _ in range(BLOCKS)]
        self._at = 0
        self._filled = 0

    def write(self, data: bytes | memoryview) -> int:
        left = memoryview(data)
        while left:
            part = left[: BLOCK - self._filled]
            self._desk.blocks[self._at][self._filled : self._filled + len(part)] = part
            self._filled = self._filled + len(part)
            left = left[len(part) :]
            if self._filled == BLOCK:
                self._pass_on()
        self.position += len(data)
        return len(data)

    def _pass_on(self) -> None:
        block = self._desk.blocks[self._at][: self._filled]
        self._works[self._at] = [
            self._desk.hashing.submit(_sha256, block),
            self._desk.writing.submit(self._put, block),
        ]
        self._at = (self._at + 1) % BLOCKS
        self._filled = 0
        self._settle()

    def _settle(self) -> None:
        """The block that is next to be filled has been written and hashed."""
        works = self._works[self._at]
        self._works[self._at] = []
        if found := [work.result() for work in works]:
            self._sum.update(found[0])

    def _put(self, block: memoryview) -> None:
        while block:
            if self._given_up():
                raise OSError("it was given up, for a rank was lost or left")
            try:
                block = block[os.write(self._descriptor, block) :]
            except OSError as error:
                if error.errno != errno.EINVAL or not _is_past_cache(self._descriptor):
                    raise
                # this file system cannot, or the file's end is no whole page
                _past_cache(self._descriptor, False)

    def end(self) -> str:
        """Durable afterwards; its checksum."""
        if self._filled:
            self._pass_on()
        for _ in range(BLOCKS):
            self._settle()
            self._at = (self._at + 1) % BLOCKS
        os.fsync(self._descriptor)
        return self._sum.hexdigest()

    def close(self) -> None:
        for works in self._works:
            # the blocks are the next file's
            wait(works)
        os.close(self._descriptor)


def checksum(data: bytes) -> str:
    """sha256 over the sha256s of its blocks of `BLOCK` bytes: that of a file, made by several
    threads."""
    return hashlib.sha256(
        b"".join(_sha256(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK))
    ).hexdigest()


def _sha256(block: bytes | memoryview) -> bytes:
    return hashlib.sha256(block).digest()


def _blocks() -> list[memoryview]:
    # past the page cache go whole pages only
    return [memoryview(mmap.mmap(-1, BLOCK)) for _ in range(BLOCKS)]


def _past_cache(descriptor: int, wished: bool) -> None:
    """What is read and written goes past the page cache from now on, where the file system can do
    that."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    with suppress(OSError):
        fcntl.fcntl(
            descriptor, fcntl.F_SETFL, flags | os.O_DIRECT if wished else flags & ~os.O_DIRECT
        )


def _is_past_cache(descriptor: int) -> bool:
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT)


def room(size: int) -> memoryview:
    """Memory for `size` bytes, in large pages where the kernel has them."""
    memory = mmap.mmap(-1, max(size, 1))
    memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)[:size]


def read(path: Path, wanted: Sequence[tuple[int, memoryview]]) -> str:
    """The file's checksum; each memory of `wanted` is filled from its offset on, as far as the file
    goes."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _past_cache(descriptor, True)
        size = os.fstat(descriptor).st_size
        blocks = _blocks()
        found = hashlib.sha256()
        hashed = deque[Future[bytes]]()
        with ThreadPoolExecutor(2) as reading, ThreadPoolExecutor(HASHING) as hashing:
            coming = deque(
                reading.submit(_fill, descriptor, block, n * BLOCK, None)
                for n, block in enumerate(blocks)
            )
            for begin in range(0, size, BLOCK):
                block = coming.popleft().result()
                hashed.append(hashing.submit(_sha256, block))
                for at, memory in wanted:
                    first = max(at, begin)
                    last = min(at + len(memory), begin + len(block))
                    if first < last:
                        memory[first - at : last - at] = block[first - begin : last - begin]
                coming.append(
                    reading.submit(
                        _fill,
                        descriptor,
                        blocks[begin // BLOCK % BLOCKS],
                        begin + BLOCKS * BLOCK,
                        hashed[-1],
                    )
                )
                if len(hashed) == BLOCKS:
                    found.update(hashed.popleft().result())
        for last_one in hashed:
            found.update(last_one.result())
        return found.hexdigest()
    finally:
        os.close(descriptor)


def _fill(
    descriptor: int, block: memoryview, offset: int, last: Future[bytes] | None
) -> memoryview:
    """As much of it as the file has from there, once what was in it last is hashed."""
    if last:
        last.result()
    filled = 0
    through_cache = False
    while filled < len(block):
        try:
            got = os.preadv(descriptor, [block[filled:]], offset + filled)
        except OSError as error:
            if error.errno != errno.EINVAL or through_cache:
                raise
            _past_cache(descriptor, False)
            # the other thread may have found out at the same time
            through_cache = True
            continue
        if not got:
            break
        filled += got
    return block[:filled]
