"""A file has the bytes that were written, past the page cache or not, and so does what is read."""

import ctypes
import errno
import mmap
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.checkpointing import direct_io
from elastic_runtime.checkpointing.direct_io import BLOCK_BYTES, BLOCK_COUNT
from elastic_runtime.checkpointing.hashed_writer import (
    PAGE_BYTES,
    BackgroundWorker,
    HashedWriter,
)

# Of the chunks that are written one after the other.
SIZES = [
    [],
    [1],
    [PAGE_BYTES],
    [PAGE_BYTES - 1, 2],
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


def write_in_place(writer: HashedWriter, data: bytes) -> None:
    """From memory that begins where `writer.position` is in its page."""
    begin = writer.position % PAGE_BYTES
    memory = mmap.mmap(-1, begin + len(data) + 1)
    memory[begin : begin + len(data)] = data
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory, begin))
    writer.write_in_place(memoryview(memory)[begin : begin + len(data)], address)


@pytest.fixture(params=["this file system", "whole pages only", "no direct I/O"])
def file_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a file system answers to direct reads and writes."""
    if request.param == "this file system":
        return

    def refuse(real: Callable[..., int]) -> Callable[..., int]:
        def call(descriptor: int, segments: Any, *offset: int) -> int:
            is_odd = any(len(segment) % PAGE_BYTES for segment in segments)
            is_refused = request.param == "no direct I/O" or is_odd
            if direct_io.is_direct(descriptor) and is_refused:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return real(descriptor, segments, *offset)

        return call

    monkeypatch.setattr(os, "writev", refuse(os.writev))
    monkeypatch.setattr(os, "preadv", refuse(os.preadv))


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
    offsets = sorted({0, len(content) // 3, max(len(content) - PAGE_BYTES - 1, 0)})
    targets = [
        (offset, direct_io.hugepage_buffer(min(len(content) - offset, BLOCK_BYTES + 7)))
        for offset in offsets
    ]
    assert direct_io.read(tmp_path / "file", targets) == checksum
    for offset, memory in targets:
        assert memory == content[offset : offset + len(memory)]


@pytest.mark.usefixtures("file_system")
@pytest.mark.parametrize(
    "sizes",
    [
        (0, 3 * PAGE_BYTES, 0),
        (7, BLOCK_BYTES + 3 * PAGE_BYTES, 9),
        (PAGE_BYTES - 1, 2, 5),
        (BLOCK_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1),
    ],
    ids=str,
)
def test_a_file_has_what_was_written_in_place_between_copies(
    tmp_path: Path, sizes: tuple[int, int, int]
) -> None:
    before, in_place, behind = random_chunks(sizes)
    worker = BackgroundWorker()
    writer = HashedWriter(tmp_path / "file", worker, lambda: False)
    writer.write(before)
    write_in_place(writer, in_place)
    writer.write(behind)
    content = before + in_place + behind
    assert writer.finish() == direct_io.checksum(content)
    writer.close()
    assert (tmp_path / "file").read_bytes() == content


def test_whole_pages_that_are_written_in_place_are_not_copied(tmp_path: Path) -> None:
    worker = BackgroundWorker()
    writer = HashedWriter(tmp_path / "file", worker, lambda: False)
    writer.write(b"x" * (PAGE_BYTES - 2))
    write_in_place(writer, b"y" * (PAGE_BYTES + 4))
    writer.finish()
    writer.close()
    copied = worker.blocks[0][: 2 * PAGE_BYTES + 2].tobytes()
    assert copied == b"x" * (PAGE_BYTES - 2) + b"yy" + bytes(PAGE_BYTES) + b"yy"


def test_what_a_system_call_did_not_write_is_written_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.writev
    monkeypatch.setattr(
        os, "writev", lambda file, segments: write(file, [segments[0][:PAGE_BYTES]])
    )
    writer = HashedWriter(tmp_path / "file", BackgroundWorker(), lambda: False)
    content = os.urandom(7 * PAGE_BYTES)
    writer.write(content[: 2 * PAGE_BYTES])
    write_in_place(writer, content[2 * PAGE_BYTES :])
    writer.finish()
    writer.close()
    assert (tmp_path / "file").read_bytes() == content


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
