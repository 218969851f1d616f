"""One save by all ranks: the leading rank waits for every part and publishes the checkpoint."""

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from elastic_runtime.checkpointing import checkpoint_directory, part_file, restore, shared_save
from elastic_runtime.checkpointing.save_format import folder_name
from elastic_runtime.checkpointing.shared_save import PART_TIMEOUT_S
from tests.builders.saves import save_on_all_ranks, savers, trained_state


class FailingDisk:
    """It fails for one of two ranks, once both have begun to write."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.write_part = part_file.write_part
        self.both_write = threading.Barrier(2)

    def write(self, draft: Path, rank: int, *arguments: Any) -> None:
        draft.mkdir(exist_ok=True)
        self.both_write.wait(10)
        if rank == self.rank:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        # The leading rank removes the draft, also of those that still write.
        while self.rank == 0 and draft.exists():
            pass
        if self.rank == 0:
            (draft / "part").touch()
        self.write_part(draft, rank, *arguments)

    def refuse(self, *_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize(
    ("rank", "can_refuse", "causes"),
    [
        pytest.param(
            1,
            True,
            [
                " on rank 1: [Errno 5] Input/output error",
                ": rank 1 did not write its part: [Errno 5] Input/output error",
            ],
            id="one rank",
        ),
        pytest.param(
            1,
            False,
            [
                " on rank 1: [Errno 5] Input/output error",
                ": there is no part of rank 1 after 0 s: its log says why",
            ],
            id="one rank, which can write nothing at all",
        ),
        pytest.param(
            0, True, [" on rank 0: [Errno 5] Input/output error"], id="the rank that publishes"
        ),
    ],
)
def test_a_rank_that_cannot_write_costs_this_save_only_and_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rank: int,
    can_refuse: bool,
    causes: list[str],
) -> None:
    messages: list[str] = []
    by_rank = savers(tmp_path, 2, lambda **facts: messages.append(facts.get("save_message", "")))
    save_on_all_ranks(by_rank, 3)
    disk = FailingDisk(rank)
    with monkeypatch.context() as broken:
        broken.setattr(part_file, "write_part", disk.write)
        if not can_refuse:
            broken.setattr(part_file, "refuse_part", disk.refuse)
            broken.setattr(shared_save, "PART_TIMEOUT_S", 0.0)
        save_on_all_ranks(by_rank, 4)
    failed = f"saving step 4 to {tmp_path} failed"
    assert sorted(filter(None, messages)) == [failed + cause for cause in causes]
    newest = restore.newest_intact(tmp_path)
    assert newest
    assert newest.step == 3
    save_on_all_ranks(by_rank, 5)
    names = [path.name for path in checkpoint_directory.checkpoints(tmp_path)]
    assert names == [folder_name(5), folder_name(3)]
    assert messages[-1] == ""


def test_the_leading_rank_waits_for_no_rank_that_could_not_write_a_moment_before(
    tmp_path: Path,
) -> None:
    """Nor could that rank say so: the directory was a file."""
    messages: list[str] = []
    leader, other = savers(
        tmp_path / "save", 2, lambda **facts: messages.append(facts.get("save_message", ""))
    )
    (tmp_path / "save").write_text("a file in place of the directory")
    other.save_and_wait(3, trained_state)
    (tmp_path / "save").unlink()
    began = time.monotonic()
    leader.save_and_wait(3, trained_state)
    assert time.monotonic() - began < PART_TIMEOUT_S / 2
    assert "rank 1 did not write its part" in messages[-1]
    save_on_all_ranks([leader, other], 3)
    assert leader.durable_step == 3


def test_a_rank_without_a_piece_reports_at_once(tmp_path: Path) -> None:
    """The leading rank needs the reports of all ranks, so it would wait for it in vain."""
    small = {"model": {"w": torch.ones(3)}, "optimizer": {}, "step": 3, "also": []}
    for saver in reversed(savers(tmp_path, 2)):
        saver.save_and_wait(3, lambda: small)
    newest = restore.newest_intact(tmp_path)
    assert newest
    assert torch.equal(restore.load(newest)["model"]["w"], torch.ones(3))
