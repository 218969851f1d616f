"""The checksum of a file is that of its blocks, and what is missing of a file is left out."""

import errno
import hashlib
import os
from pathlib import Path

import pytest

from elastic_runtime.checkpointing import direct_io
from elastic_runtime.checkpointing.direct_io import BLOCK_BYTES


def test_a_checksum_is_that_of_the_checksums_of_blocks() -> None:
    first = os.urandom(BLOCK_BYTES)
    second = os.urandom(5)
    hashes = hashlib.sha256(first).digest() + hashlib.sha256(second).digest()
    assert direct_io.checksum(first + second) == hashlib.sha256(hashes).hexdigest()
    assert direct_io.checksum(b"") == hashlib.sha256().hexdigest()


def test_what_is_left_of_a_truncated_file_is_read_and_its_checksum_differs(tmp_path: Path) -> None:
    content = os.urandom(BLOCK_BYTES + 100)
    (tmp_path / "file").write_bytes(content[: BLOCK_BYTES + 10])
    memory = direct_io.hugepage_buffer(200)
    checksum = direct_io.read(tmp_path / "file", [(BLOCK_BYTES - 50, memory)])
    assert checksum != direct_io.checksum(content)
    assert memory[:60] == content[BLOCK_BYTES - 50 : BLOCK_BYTES + 10]


def test_an_error_while_a_file_is_read_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"x")

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(OSError, match=r"Input/output error: '.*/file'"):
        direct_io.read(tmp_path / "file", [])


def test_a_forked_process_has_its_own_copy_of_a_buffer() -> None:
    """As of the memory of a tensor that torch allocates."""
    buffer = direct_io.hugepage_buffer(1)
    child = os.fork()
    if not child:
        buffer[0] = 1
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert buffer[0] == 0
