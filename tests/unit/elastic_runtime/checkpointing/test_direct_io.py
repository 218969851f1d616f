"""What is written is what was given, byte for byte and by its checksum, past the page cache or not;
and so is what is read."""

import errno
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.checkpointing import direct_io
from elastic_runtime.checkpointing.direct_io import BLOCK, BLOCKS, Desk, Out

PAGE = 4096
SIZES = [
    [],
    [1],
    [PAGE],
    [PAGE - 1, 2],
    [BLOCK],
    [BLOCK - 1, 2],
    [100, BLOCK * (BLOCKS + 1), 3],
    [BLOCK * BLOCKS],
]


def write(
    path: Path, chunks: Sequence[bytes], desk: Desk, given_up: Callable[[], bool] = lambda: False
) -> str:
    out = Out(path, desk, given_up)
    try:
        for chunk in chunks:
            out.write(chunk)
        return out.end()
    finally:
        out.close()


def chunks_of(sizes: Sequence[int]) -> list[bytes]:
    return [os.urandom(size) for size in sizes]


@pytest.fixture(params=["as the file system has it", "whole pages only", "never past the cache"])
def disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a file system answers to reads and writes past its cache."""
    if request.param == "as the file system has it":
        return

    def answer(real: Callable[..., int], length: Callable[..., int]) -> Callable[..., int]:
        def call(descriptor: int, given: Any, *at: int) -> int:
            if direct_io._is_past_cache(descriptor) and (
                request.param == "never past the cache" or length(given) % PAGE
            ):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return real(descriptor, given, *at)

        return call

    monkeypatch.setattr(os, "write", answer(os.write, len))
    monkeypatch.setattr(os, "preadv", answer(os.preadv, lambda blocks: len(blocks[0])))


@pytest.mark.usefixtures("disk")
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_file_is_what_was_written_and_is_read_back_piece_by_piece(
    tmp_path: Path, sizes: list[int]
) -> None:
    chunks = chunks_of(sizes)
    desk = Desk()
    whole = b"".join(chunks)
    checksum = direct_io.checksum(whole)
    assert write(tmp_path / "file", chunks, desk) == checksum
    assert (tmp_path / "file").read_bytes() == whole
    begins = sorted({0, len(whole) // 3, max(len(whole) - PAGE - 1, 0)})
    wanted = [(begin, direct_io.room(min(len(whole) - begin, BLOCK + 7))) for begin in begins]
    assert direct_io.read(tmp_path / "file", wanted) == checksum
    for begin, memory in wanted:
        assert memory == whole[begin : begin + len(memory)]


def test_a_checksum_is_that_of_the_blocks_checksums() -> None:
    first = os.urandom(BLOCK)
    second = os.urandom(5)
    of_blocks = hashlib.sha256(first).digest() + hashlib.sha256(second).digest()
    assert direct_io.checksum(first + second) == hashlib.sha256(of_blocks).hexdigest()
    assert direct_io.checksum(b"") == hashlib.sha256().hexdigest()


def test_what_is_given_up_is_an_error_and_the_next_file_is_whole(tmp_path: Path) -> None:
    desk = Desk()
    chunks = chunks_of([BLOCK * 2 + 5])
    with pytest.raises(OSError, match="given up"):
        write(tmp_path / "one", chunks, desk, lambda: True)
    write(tmp_path / "two", chunks, desk)
    assert (tmp_path / "two").read_bytes() == chunks[0]


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        write(tmp_path / "file", [b"x"], Desk())
    assert (tmp_path / "file").read_text() == "mine"


def test_of_a_file_cut_short_what_is_there_is_read_and_its_checksum_tells(tmp_path: Path) -> None:
    [whole] = chunks_of([BLOCK + 100])
    (tmp_path / "file").write_bytes(whole[: BLOCK + 10])
    memory = direct_io.room(200)
    assert direct_io.read(tmp_path / "file", [(BLOCK - 50, memory)]) != direct_io.checksum(whole)
    assert memory[:60] == whole[BLOCK - 50 : BLOCK + 10]
