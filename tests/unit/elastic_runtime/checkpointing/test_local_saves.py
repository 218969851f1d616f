"""Saves on the pods' own disks: brought together when no process has a state, and passed over when
a part is gone or harmed."""

import errno
import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from elastic_runtime import contract
from elastic_runtime.checkpointing import local_saves, restore
from elastic_runtime.checkpointing.local_saves import KEEP, LocalSaves, complete
from elastic_runtime.checkpointing.partition import Writer
from elastic_runtime.checkpointing.save_format import Saved, rank_of
from elastic_runtime.distributed.gloo import open_store
from elastic_runtime.distributed.group import Group
from tests.harness.local_job import SCRIPT, Job


def state(step: int) -> dict[str, Any]:
    torch.manual_seed(step)
    return {"model": {"w": torch.randn(300, 100)}, "optimizer": {}, "step": step, "also": []}


def say(**_: Any) -> None:
    raise AssertionError("a save failed")


def tier_at(disk: Path, said: Callable[..., None] = say) -> LocalSaves:
    """Of a job whose shared directory lies beside `disk`."""
    (disk.parent / "shared").mkdir(exist_ok=True)
    (disk.parent / "shared" / "id").write_text("job")
    return LocalSaves(disk, disk.parent / "shared", 1, said)


def save(tier: LocalSaves, step: int, *, world: int = 1) -> None:
    """By every rank of one pod."""
    for rank in range(world):
        tier.soon(
            step, state(step), state(step) if rank == 0 else {}, Writer(rank, world, 0, "1-5000")
        )
        # after it
        tier.settle()


def test_a_save_counts_when_every_part_is_with_somebody_and_the_newest_comes_first() -> None:
    older = "step-000000007.2-50.2"
    newer = "step-000000009.2-50.2"
    torn = "step-000000011.2-50.3"
    said = [
        [(older, 0, 5, 1), (newer, 0, 5, 1), (torn, 0, 5, 1)],
        [(older, 1, 6, 1), (newer, 1, 6, 1), (torn, 2, 6, 1), (newer, 0, 5, 1)],
    ]
    assert complete(said, 3) == [
        (newer, {0: (0, 5, 1), 1: (1, 6, 1)}),
        (older, {0: (0, 5, 1), 1: (1, 6, 1)}),
    ]
    assert [folder for folder, _ in complete(said, 7)] == [newer]
    assert complete(said, 9) == []


def test_what_a_pods_ranks_saved_is_whole_again_and_older_saves_go(tmp_path: Path) -> None:
    tier = tier_at(tmp_path / "disk")
    for step in range(1, KEEP + 3):
        save(tier, step, world=2)
    found = tier.collect(None, beyond=-1)
    assert found
    assert found.step == KEEP + 2
    assert torch.equal(restore.load(found)["model"]["w"], state(KEEP + 2)["model"]["w"])
    tier.forget()
    # and they can be brought together again
    assert len(list(tier.directory.iterdir())) == KEEP
    assert tier.collect(None, beyond=KEEP + 2) is None


def flip_a_bit(part: Path) -> None:
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)


def test_a_harmed_part_costs_its_save_only_and_a_line_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tier = tier_at(tmp_path / "disk")
    save(tier, 1, world=2)
    save(tier, 2, world=2)
    flip_a_bit(next(tier.directory.glob("step-000000002*/__1_0.distcp")))
    with caplog.at_level(logging.WARNING):
        found = tier.collect(None, beyond=-1)
    assert found
    assert found.step == 1
    assert any("step-000000002" in str(record.__dict__) for record in caplog.records)


def all_collect(tiers: list[LocalSaves], beyond: int) -> list[Saved | None]:
    """What each of two ranks gets when they look together."""
    store, port = open_store()
    found: dict[int, Saved | None] = {}

    def rank(number: int) -> None:
        group = Group(1, number, 2)
        group.connect(f"127.0.0.1:{port}")
        found[number] = tiers[number].collect(group, beyond)
        group.close()

    threads = [threading.Thread(target=rank, args=(number,), daemon=True) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    del store
    return [found[number] for number in (0, 1)]


@pytest.fixture
def two(tmp_path: Path) -> list[LocalSaves]:
    """Pods of one rank each, with their parts of steps 7 and 8."""
    tiers = [tier_at(tmp_path / f"disk-{rank}") for rank in (0, 1)]
    for step in (7, 8):
        for rank, tier in enumerate(tiers):
            tier.soon(
                step, state(step), state(step) if rank == 0 else {}, Writer(rank, 2, 0, "1-5000")
            )
            tier.settle()
    return tiers


def test_parts_come_from_other_pods_and_later_saves_than_the_one_taken_are_gone(
    two: list[LocalSaves],
) -> None:
    shutil.rmtree(next(two[1].directory.glob("step-000000008*")))
    leader, other = all_collect(two, 3)
    assert leader
    assert (leader.step, other) == (7, None)
    assert torch.equal(restore.load(leader)["model"]["w"], state(7)["model"]["w"])
    assert [sorted(path.name[:14] for path in tier.directory.glob("step-*")) for tier in two] == [
        ["step-000000007"]
    ] * 2


@pytest.mark.parametrize("what", ["the leader's room", "the leader's own part", "another's part"])
def test_a_disk_that_fails_meanwhile_costs_the_save_and_keeps_nobody_waiting(
    two: list[LocalSaves], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        def __call__(self, *_: Any) -> Any:
            raise OSError(errno.EIO, "Input/output error")

    if what == "the leader's room":
        (two[0].directory / "collected").write_text("a file, where there should be a directory")
        monkeypatch.setattr(two[0], "forget", lambda: None)
    elif what == "the leader's own part":
        monkeypatch.setattr(shutil, "copyfile", Failing())
    else:
        send = local_saves._send

        def lost(group: Group, file: Path, size: int) -> None:
            file.unlink()
            send(group, file, size)

        monkeypatch.setattr(local_saves, "_send", lost)
    assert all_collect(two, -1) == [None, None]


def test_a_disk_that_takes_nothing_is_said_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "disk").write_text("a file, where there should be a directory")
    said: list[str] = []
    tier = tier_at(tmp_path / "disk", lambda message: said.append(message))
    save(tier, 1)
    assert "saving step 1 to" in said[0]
    (tmp_path / "disk").unlink()
    save(tier, 2)
    found = tier.collect(None, beyond=-1)
    assert found
    assert found.step == 2


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    local = (
        "local_checkpoint='disk-' + __import__('os').environ['JOB_COMPLETION_INDEX'], "
        "local_save_every=5, "
    )
    job = Job(tmp_path, SCRIPT.replace('checkpoint="save"', local + 'checkpoint="save"'))
    yield job
    job.kill()


def on_disks(job: Job) -> list[int]:
    """Steps that lie whole on the disks of pods 0, 1 and 2."""
    name = (job.directory / "save" / "id").read_text()
    disks = [job.directory / f"disk-{index}" / name for index in range(3)]
    said = [
        [(path.parent.name, rank_of(path), 0, 0) for path in disk.glob("step-*/*.said")]
        for disk in disks
    ]
    return [int(folder.split(".")[0].removeprefix("step-")) for folder, _ in complete(said, 0)]


def lost_and_back(job: Job, meanwhile: Callable[[], None] = lambda: None) -> int:
    """All pods' processes are killed and started; the step from which the job went on."""
    before = job.call("GET", contract.STATUS_PATH).generation
    for index in range(3):
        job.kill_pod(index)
    meanwhile()
    for index in range(3):
        job.start(index)
    job.trains(3)
    lines = [line for line in job.lines("steps-*") if line["generation"] > before]
    return min(int(line["step"]) for line in lines) - 1


@pytest.mark.processes
def test_when_all_processes_are_lost_the_job_goes_on_from_the_pods_disks_or_the_shared_one_if_a_disk_is_gone(
    job: Job,
) -> None:
    job.start(0, 1, 2)
    job.trains(3)
    job.call("POST", contract.CHECKPOINT_PATH)
    shared = job.until(lambda s: s.durableStep > 0).durableStep
    job.until(lambda s: any(step > shared for step in on_disks(job)))
    newest = max(on_disks(job))
    assert lost_and_back(job) >= newest
    # what lies on the pods' disks is not called durable
    assert job.call("GET", contract.STATUS_PATH).durableStep == shared
    before = job.call("GET", contract.STATUS_PATH).generation
    # pod 1 came back somewhere else
    assert lost_and_back(job, lambda: shutil.rmtree(job.directory / "disk-1")) == shared
    assert job.call("GET", contract.STATUS_PATH).generation > before
    # and what is saved since then is kept
    job.until(lambda s: any(step > shared for step in on_disks(job)))
