"""A file has the bytes that were written, past the page cache or not, and so does what is read."""

import errno
import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.checkpointing import direct_io
from elastic_runtime.checkpointing.direct_io import (
    BLOCK_BYTES,
    BLOCK_COUNT,
    BackgroundWorker,
    HashedWriter,
)

PAGE = 4096
# Of the chunks that are written one after the other.
SIZES = [
    [],
    [1],
    [PAGE],
    [PAGE - 1, 2],
    [BLOCK_BYTES],
    [BLOCK_BYTES - 1, 2],
    [100, BLOCK_BYTES * (BLOCK_COUNT + 1), 3],
    [BLOCK_BYTES * BLOCK_COUNT],
]


def write(
    path: Path,
    chunks: Sequence[bytes],
    worker: BackgroundWorker,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> str:
    """The checksum of the new file."""
    writer = HashedWriter(path, worker, is_cancelled)
    try:
        for chunk in chunks:
            writer.write(chunk)
        return writer.finish()
    finally:
        writer.close()


def random_chunks(sizes: Sequence[int]) -> list[bytes]:
    return [os.urandom(size) for size in sizes]


@pytest.fixture(params=["this file system", "whole pages only", "no direct I/O"])
def file_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a file system answers to direct reads and writes."""
    if request.param == "this file system":
        return

    def refuse(real: Callable[..., int], length: Callable[..., int]) -> Callable[..., int]:
        def call(descriptor: int, data: Any, *offset: int) -> int:
            is_refused = request.param == "no direct I/O" or length(data) % PAGE
            if direct_io._is_direct(descriptor) and is_refused:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return real(descriptor, data, *offset)

        return call

    monkeypatch.setattr(os, "write", refuse(os.write, len))
    monkeypatch.setattr(os, "preadv", refuse(os.preadv, lambda blocks: len(blocks[0])))


@pytest.mark.usefixtures("file_system")
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_file_is_what_was_written_and_is_read_piece_by_piece(
    tmp_path: Path, sizes: list[int]
) -> None:
    chunks = random_chunks(sizes)
    content = b"".join(chunks)
    checksum = direct_io.checksum(content)
    assert write(tmp_path / "file", chunks, BackgroundWorker()) == checksum
    assert (tmp_path / "file").read_bytes() == content
    offsets = sorted({0, len(content) // 3, max(len(content) - PAGE - 1, 0)})
    targets = [
        (offset, direct_io.hugepage_buffer(min(len(content) - offset, BLOCK_BYTES + 7)))
        for offset in offsets
    ]
    assert direct_io.read(tmp_path / "file", targets) == checksum
    for offset, memory in targets:
        assert memory == content[offset : offset + len(memory)]


def test_a_checksum_is_that_of_the_checksums_of_blocks() -> None:
    first = os.urandom(BLOCK_BYTES)
    second = os.urandom(5)
    hashes = hashlib.sha256(first).digest() + hashlib.sha256(second).digest()
    assert direct_io.checksum(first + second) == hashlib.sha256(hashes).hexdigest()
    assert direct_io.checksum(b"") == hashlib.sha256().hexdigest()


def test_a_cancelled_write_is_an_error_and_the_next_file_is_complete(tmp_path: Path) -> None:
    worker = BackgroundWorker()
    chunks = random_chunks([BLOCK_BYTES * 2 + 5])
    with pytest.raises(OSError, match="the save was cancelled"):
        write(tmp_path / "cancelled", chunks, worker, lambda: True)
    write(tmp_path / "next", chunks, worker)
    assert (tmp_path / "next").read_bytes() == chunks[0]


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(FileExistsError):
        write(tmp_path / "file", [b"x"], BackgroundWorker())
    assert (tmp_path / "file").read_text() == "old"


def test_what_is_left_of_a_truncated_file_is_read_and_its_checksum_differs(tmp_path: Path) -> None:
    [content] = random_chunks([BLOCK_BYTES + 100])
    (tmp_path / "file").write_bytes(content[: BLOCK_BYTES + 10])
    memory = direct_io.hugepage_buffer(200)
    checksum = direct_io.read(tmp_path / "file", [(BLOCK_BYTES - 50, memory)])
    assert checksum != direct_io.checksum(content)
    assert memory[:60] == content[BLOCK_BYTES - 50 : BLOCK_BYTES + 10]


def test_a_worker_runs_tasks_one_after_the_other_and_raises_their_errors() -> None:
    worker = BackgroundWorker()
    may_end = threading.Event()
    results: list[int] = []

    def append(number: int) -> None:
        may_end.wait(10)
        results.append(number)

    worker.start(append, 1)
    assert not worker.has_waiting_task
    worker.start(append, 2)
    assert worker.has_waiting_task
    assert not worker.wait(0.01)
    may_end.set()
    assert worker.wait()
    assert results == [1, 2]
    worker.start(results.remove, 7)
    with pytest.raises(ValueError, match="not in list"):
        worker.wait()
