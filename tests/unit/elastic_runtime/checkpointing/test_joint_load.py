"""All ranks load the newest checkpoint together, only if every byte is as it was written."""

import errno
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from elastic_runtime.checkpointing import direct_io, joint_load, load_failures, restore
from elastic_runtime.checkpointing.save_format import METADATA, folder_name
from elastic_runtime.checkpointing.saver import Saver
from elastic_runtime.distributed.group import Group
from elastic_runtime.state.destination import WholeTensors
from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.state.state_tree import State
from tests.builders.damage import DAMAGES, change_version, flip_a_bit
from tests.builders.saves import (
    ignore_report,
    save,
    save_on_all_ranks,
    savers,
    small_state,
    steps_in,
)
from tests.harness.thread_ranks import run_ranks

# --- one rank -------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_checkpoint_before_a_damaged_one_is_loaded(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Into the live tensors. The damaged one is set aside, so it is not the newest any more."""
    # Large enough to be read into place.
    numbers = 30_000
    live = {"model.w": torch.zeros(numbers)}
    old = save(tmp_path, 1, small_state(1, numbers))
    newer_state = {**small_state(2, numbers), "model": {"w": torch.ones(numbers)}}
    damage(save(tmp_path, 2, newer_state).path)
    # A copy that somebody has made.
    (tmp_path / "step-000000001.bak").mkdir()
    loaded = joint_load.load_newest(tmp_path, WholeTensors(live))
    assert loaded
    checkpoint, state = loaded
    assert checkpoint == old
    # No new memory.
    assert state["model"]["w"] is live["model.w"]
    assert torch.equal(live["model.w"], small_state(1, numbers)["model"]["w"])
    assert Saver(tmp_path, 0, ignore_report).newest_step() == 1
    # For people to look at.
    assert (tmp_path / "damaged-step-000000002").is_dir()


def test_a_job_does_not_start_over_if_all_checkpoints_are_damaged(tmp_path: Path) -> None:
    for step in (1, 2):
        flip_a_bit(save(tmp_path, step, small_state(step)).path)
    with pytest.raises(LookupError, match=r"all 2 checkpoints in .* are damaged"):
        joint_load.load_newest(tmp_path, WholeTensors())
    assert steps_in(tmp_path) == [1, 2]


def test_a_newest_checkpoint_of_another_version_stops_the_job(tmp_path: Path) -> None:
    """It is neither skipped nor set aside: it may be intact."""
    save(tmp_path, 1, small_state(1))
    change_version(save(tmp_path, 2, small_state(2)).path)
    with pytest.raises(
        LookupError, match=r"has format version .* use the image that wrote it, or move it away"
    ):
        joint_load.load_newest(tmp_path, WholeTensors())
    assert steps_in(tmp_path) == [1, 2]


# --- storage that fails ---------------------------------------------------------------------------


# --- several ranks --------------------------------------------------------------------------------

BLOCK_BYTES = 4096
# Of the tensors that are sharded: one that is read into place, and two that are unpacked.
ROWS = {"model.w": 4001, "model.small": 7, "model.flags": 5}


class SomeRows(WholeTensors):
    """The rows that a rank has of a sharded model. `fail`: called before they are known."""

    def __init__(self, group: Group, fail: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._shard = Shard(group.rank, group.world)
        self._fail = fail

    def rows(self, name: str, shape: Sequence[int]) -> tuple[int, int]:
        self._fail()
        return self._shard.rows(shape[0]) if name in ROWS else super().rows(name, shape)


def sharded_state(step: int) -> dict[str, Any]:
    return {
        "step": step,
        "model": {
            "w": torch.arange(4001 * 40.0).view(4001, 40) + step,
            "small": torch.arange(14).view(7, 2) + step,
            "flags": torch.tensor([True, False, True, True, False]),
            "count": torch.tensor(step),
            "nothing": torch.empty(0, 3),
        },
        "also": [{"seen": torch.arange(3)}],
    }


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_io, "BLOCK_BYTES", BLOCK_BYTES)


def save_together(directory: Path, step: int, writers: int) -> Path:
    save_on_all_ranks(savers(directory, writers), step, sharded_state(step))
    return directory / folder_name(step)


def load_rows(directory: Path, group: Group) -> State:
    loaded = joint_load.load_newest(directory, SomeRows(group), group)
    assert loaded
    assert loaded[0].step == loaded[1]["step"]
    return loaded[1]


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("readers", [1, 3, 9])
@pytest.mark.parametrize("writers", [1, 2, 4])
def test_each_rank_loads_its_rows_whatever_ranks_wrote_them(
    tmp_path: Path, writers: int, readers: int
) -> None:
    save_together(tmp_path, 3, writers)
    whole = sharded_state(3)
    states = run_ranks(readers, lambda group: load_rows(tmp_path, group))
    for name in ("w", "small", "flags"):
        rows = [state["model"][name] for state in states]
        assert torch.equal(torch.cat(rows), whole["model"][name])
    for rank, state in enumerate(states):
        assert state["model"]["w"].shape[0] == len(range(*Shard(rank, readers).rows(4001)))
        assert int(state["model"]["count"]) == 3
        assert state["model"]["nothing"].shape == (0, 3)
        assert torch.equal(state["also"][0]["seen"], torch.arange(3))


@pytest.mark.usefixtures("_small_blocks")
def test_no_rank_reads_much_more_than_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_together(tmp_path, 3, writers=4)
    read = direct_io.read_blocks
    blocks = dict[int, int]()

    def counting(*arguments: Any) -> dict[int, bytes]:
        hashes = read(*arguments)
        thread = threading.get_ident()
        blocks[thread] = blocks.get(thread, 0) + len(hashes)
        return hashes

    monkeypatch.setattr(direct_io, "read_blocks", counting)
    run_ranks(4, lambda group: load_rows(tmp_path, group))
    files = (tmp_path / folder_name(3)).glob("__*")
    whole = sum(path.stat().st_size for path in files) / BLOCK_BYTES
    assert len(blocks) == 4
    assert max(blocks.values()) < 0.4 * whole


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("file", ["__0_0.distcp", "__1_0.distcp", METADATA])
@pytest.mark.parametrize("position", [0.1, 0.5, 0.99])
def test_all_ranks_go_back_together_wherever_the_damage_is(
    tmp_path: Path, file: str, position: float
) -> None:
    """Also in bytes that no rank needs."""
    save_together(tmp_path, 1, writers=2)
    path = save_together(tmp_path, 2, writers=2) / file
    content = bytearray(path.read_bytes())
    content[int(len(content) * position)] ^= 1
    path.write_bytes(content)
    states = run_ranks(3, lambda group: load_rows(tmp_path, group))
    assert [state["step"] for state in states] == [1, 1, 1]
    assert steps_in(tmp_path) == [1]
    assert (tmp_path / "damaged-step-000000002").is_dir()


def test_a_file_that_has_grown_is_damaged(tmp_path: Path) -> None:
    save_together(tmp_path, 1, writers=1)
    with open(save_together(tmp_path, 2, writers=1) / "__0_0.distcp", "ab") as file:
        file.write(b"0")
    loaded = joint_load.load_newest(tmp_path, WholeTensors())
    assert loaded
    assert loaded[0].step == 1


def test_if_one_rank_cannot_read_the_newest_none_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_failures, "RETRY_DELAY_S", 0.0)
    for step in (1, 2):
        save_together(tmp_path, step, writers=1)

    def load(group: Group) -> str:
        def fail() -> None:
            if group.rank == 1:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

        with pytest.raises(LookupError, match=r"step-000000002 cannot be read: .*Stale") as raised:
            joint_load.load_newest(tmp_path, SomeRows(group, fail), group)
        return str(raised.value)

    assert len({*run_ranks(3, load)}) == 1
    assert steps_in(tmp_path) == [1, 2]


@pytest.mark.parametrize("fails_elsewhere", [False, True], ids=["the others see it", "one fails"])
def test_a_file_that_only_one_rank_does_not_see_is_not_damaged(
    tmp_path: Path, fails_elsewhere: bool
) -> None:
    """As on a file server that shows it a moment later, or where the directory is not shared."""
    for step in (1, 2):
        save_together(tmp_path, step, writers=1)

    def load(group: Group) -> None:
        def fail() -> None:
            if group.rank == 1:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            if group.rank == 2 and fails_elsewhere:
                raise restore.Unreadable("the file server is away")

        message = "worker 1 on .* cannot read a file that worker 0 can read: .*No such file"
        if fails_elsewhere:
            message = "worker 2 on .*: the file server is away"
        with pytest.raises(LookupError, match=message):
            joint_load.load_newest(tmp_path, SomeRows(group, fail), group)

    run_ranks(3, load)
    assert steps_in(tmp_path) == [1, 2]


def test_no_checkpoint_is_no_error_on_any_rank(tmp_path: Path) -> None:
    nothing = run_ranks(
        2, lambda group: joint_load.load_newest(tmp_path / "missing", SomeRows(group), group)
    )
    assert nothing == [None, None]
