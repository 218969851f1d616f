"""A part that cannot be written leaves older checkpoints as they were."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from elastic_runtime.checkpointing import part_file, restore
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
    assert not part_file.all_parts_durable(tmp_path, 2)
    part_file.refuse_part(tmp_path, 1, "the disk has failed")
    with pytest.raises(OSError, match="rank 1 did not write its part: the disk has failed"):
        part_file.all_parts_durable(tmp_path, 2)
