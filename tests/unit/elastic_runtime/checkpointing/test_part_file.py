"""A part that cannot be written leaves older checkpoints as they were."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from elastic_runtime.checkpointing import part_file, restore
from elastic_runtime.checkpointing.hashed_writer import (
    PAGE_BYTES,
    BackgroundWorker,
    HashedWriter,
)
from elastic_runtime.checkpointing.partition import Piece
from elastic_runtime.checkpointing.save_format import (
    StoredTensor,
    part_name,
    report_path,
    unseal_report,
)
from elastic_runtime.state.state_tree import unpack
from tests.builders.saves import save, small_state


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """A full disk: no file of this process may grow past `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_reported_and_the_old_checkpoint_stays(tmp_path: Path) -> None:
    old = save(tmp_path, 1, small_state(1))
    with file_size_limit(50_000), pytest.raises(OSError, match="saving step 2"):
        save(tmp_path, 2, small_state(2, 1_000_000))
    assert restore.newest_intact(tmp_path) == old
    assert [path.name for path in tmp_path.iterdir()] == [old.path.name]
    # And saving works again once there is space.
    assert save(tmp_path, 3, small_state(3)).step == 3


def test_a_directory_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"saving step 1 to .*file.*: .*Not a directory"):
        save(tmp_path / "file", 1, small_state(1))


def test_a_refusal_ends_the_wait_for_the_other_parts(tmp_path: Path) -> None:
    assert part_file.missing_parts(tmp_path, 2) == [0, 1]
    part_file.refuse_part(tmp_path, 1, "the disk has failed")
    with pytest.raises(OSError, match="rank 1 did not write its part: the disk has failed"):
        part_file.missing_parts(tmp_path, 2)


def test_large_tensors_are_written_without_a_copy_and_read_back_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[int] = []
    write = HashedWriter.write

    def counting_write(self: HashedWriter, data: bytes | memoryview) -> int:
        copied.append(len(data))
        return write(self, data)

    monkeypatch.setattr(HashedWriter, "write", counting_write)
    whole = torch.arange(3_000_000.0)
    # Views of a size of their own would be written with their whole storage.
    tensors = [whole[7:11].clone(), whole.clone(), whole.to(torch.float64), whole[:20_000].clone()]
    pieces = [
        Piece(f"model.{number}", tensor, (0,), tuple(tensor.shape))
        for number, tensor in enumerate(tensors)
    ]
    part_file.write_part(tmp_path, 0, pieces, {}, BackgroundWorker(), lambda: False)
    path = tmp_path / part_name(0)
    content = path.read_bytes()
    stored = unseal_report(report_path(path).read_bytes()).pieces
    for piece, tensor in zip(stored, tensors, strict=True):
        assert isinstance(piece, StoredTensor)
        packed = content[piece.begin : piece.begin + piece.length]
        assert torch.equal(unpack(packed), tensor)
        is_large = tensor.nbytes >= 64 << 10
        assert (piece.data >= 0) == is_large
        if is_large:
            raw = content[piece.data : piece.data + tensor.nbytes]
            assert torch.equal(torch.frombuffer(bytearray(raw), dtype=tensor.dtype), tensor)
            assert piece.data % PAGE_BYTES == tensor.data_ptr() % PAGE_BYTES
    # Headers, and up to a page at each end of a large one.
    assert sum(copied) < len(tensors) * 4 * PAGE_BYTES
