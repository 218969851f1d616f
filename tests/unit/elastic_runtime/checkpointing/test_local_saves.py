"""Checkpoints on the pods' own disks, collected when no process has a state."""

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
from elastic_runtime.checkpointing import local_parts, restore
from elastic_runtime.checkpointing.local_parts import LocalPart, complete_checkpoints
from elastic_runtime.checkpointing.local_saves import KEEP, LocalSaves
from elastic_runtime.checkpointing.partition import Writer
from elastic_runtime.checkpointing.save_format import Checkpoint, rank_of, step_of
from elastic_runtime.distributed.gloo import open_store
from elastic_runtime.distributed.group import Group
from tests.harness.local_job import SCRIPT, Job


def state_after(step: int) -> dict[str, Any]:
    torch.manual_seed(step)
    return {"model": {"w": torch.randn(300, 100)}, "optimizer": {}, "step": step, "also": []}


def expect_no_report(**_: Any) -> None:
    raise AssertionError("a save failed")


def local_saves_at(disk: Path, report: Callable[..., None] = expect_no_report) -> LocalSaves:
    """Of a job whose shared directory is beside `disk`."""
    shared = disk.parent / "shared"
    shared.mkdir(exist_ok=True)
    (shared / "id").write_text("job")
    return LocalSaves(disk, shared, 1, report)


def save(local: LocalSaves, step: int, rank: int, world: int) -> None:
    live = state_after(step)
    skeleton = live if rank == 0 else {}
    local.save_in_background(step, live, skeleton, Writer(rank, world, 0, "1-5000"))
    local.wait()


def save_all(local: LocalSaves, step: int, world: int = 1) -> None:
    """By all ranks of a job that has one pod."""
    for rank in range(world):
        save(local, step, rank, world)


# --- one pod --------------------------------------------------------------------------------------


def test_the_parts_of_a_pod_make_a_checkpoint_and_older_ones_are_removed(tmp_path: Path) -> None:
    local = local_saves_at(tmp_path / "disk")
    newest = KEEP + 2
    for step in range(1, newest + 1):
        save_all(local, step, world=2)
    checkpoint = local.collect(None, newer_than=-1)
    assert checkpoint
    assert checkpoint.step == newest
    assert torch.equal(restore.load(checkpoint)["model"]["w"], state_after(newest)["model"]["w"])
    local.discard_collected()
    # And they can be collected again.
    assert len(list(local.directory.iterdir())) == KEEP
    assert local.collect(None, newer_than=newest) is None


def flip_a_bit(part: Path) -> None:
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)


def test_a_damaged_part_costs_its_checkpoint_only_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    local = local_saves_at(tmp_path / "disk")
    save_all(local, 1, world=2)
    save_all(local, 2, world=2)
    flip_a_bit(next(local.directory.glob("step-000000002*/__1_0.distcp")))
    with caplog.at_level(logging.WARNING):
        checkpoint = local.collect(None, newer_than=-1)
    assert checkpoint
    assert checkpoint.step == 1
    assert any("step-000000002" in str(record.__dict__) for record in caplog.records)


def test_a_disk_that_cannot_be_written_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "disk").write_text("a file where there should be a directory")
    messages: list[str] = []
    local = local_saves_at(tmp_path / "disk", lambda save_message: messages.append(save_message))
    save_all(local, 1)
    assert "saving step 1 to" in messages[0]
    (tmp_path / "disk").unlink()
    save_all(local, 2)
    checkpoint = local.collect(None, newer_than=-1)
    assert checkpoint
    assert checkpoint.step == 2


# --- two pods -------------------------------------------------------------------------------------


def collect_on_all(pods: list[LocalSaves], newer_than: int) -> list[Checkpoint | None]:
    """What each rank of a group gets, by rank."""
    store, port = open_store()
    checkpoints: dict[int, Checkpoint | None] = {}

    def run_rank(rank: int) -> None:
        group = Group(1, rank, 2)
        group.connect(f"127.0.0.1:{port}")
        checkpoints[rank] = pods[rank].collect(group, newer_than)
        group.close()

    threads = [threading.Thread(target=run_rank, args=(rank,), daemon=True) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    del store
    return [checkpoints[rank] for rank in (0, 1)]


@pytest.fixture
def pods(tmp_path: Path) -> list[LocalSaves]:
    """Two pods of one rank each, with their parts of steps 7 and 8."""
    by_rank = [local_saves_at(tmp_path / f"disk-{rank}") for rank in (0, 1)]
    for step in (7, 8):
        for rank, local in enumerate(by_rank):
            save(local, step, rank, world=2)
    return by_rank


def test_parts_come_from_all_pods_and_later_checkpoints_are_removed(
    pods: list[LocalSaves],
) -> None:
    shutil.rmtree(next(pods[1].directory.glob("step-000000008*")))
    leading, other = collect_on_all(pods, 3)
    assert leading
    assert leading.step == 7
    assert other is None
    assert torch.equal(restore.load(leading)["model"]["w"], state_after(7)["model"]["w"])
    for local in pods:
        assert [step_of(path.name) for path in local.directory.glob("step-*")] == [7]


@pytest.mark.parametrize("failing", ["the leader's space", "the leader's part", "another's part"])
def test_a_disk_that_fails_while_parts_are_collected_keeps_no_rank_waiting(
    pods: list[LocalSaves], failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs the checkpoint."""

    def fail(*_: Any) -> Any:
        raise OSError(errno.EIO, "Input/output error")

    if failing == "the leader's space":
        (pods[0].directory / "collected").write_text("a file where there should be a directory")
        monkeypatch.setattr(pods[0], "discard_collected", lambda: None)
    elif failing == "the leader's part":
        monkeypatch.setattr(shutil, "copyfile", fail)
    else:
        send_file = local_parts.send_file

        def send_deleted(group: Group, file: Path, size: int) -> None:
            file.unlink()
            send_file(group, file, size)

        monkeypatch.setattr(local_parts, "send_file", send_deleted)
    assert collect_on_all(pods, -1) == [None, None]


# --- a job of three pods --------------------------------------------------------------------------


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    options = (
        "local_checkpoint='disk-' + __import__('os').environ['JOB_COMPLETION_INDEX'], "
        "local_save_every=5, "
    )
    script = SCRIPT.replace('checkpoint="save"', options + 'checkpoint="save"')
    # with fewer pods it would start without the disk of one that comes late
    job = Job(tmp_path, script, smallest=3)
    yield job
    job.kill()


def parts_on(disk: Path) -> list[LocalPart]:
    reports = disk.glob("step-*/*.report")
    return [LocalPart(path.parent.name, rank_of(path), 0, 0) for path in reports]


def complete_steps(job: Job) -> list[int]:
    """The steps of complete checkpoints on the disks of pods 0, 1 and 2."""
    job_id = (job.directory / "save" / "id").read_text()
    disks = [job.directory / f"disk-{index}" / job_id for index in range(3)]
    parts_by_rank = [parts_on(disk) for disk in disks]
    return [step_of(folder) for folder, _ in complete_checkpoints(parts_by_rank, 0)]


def restart_all(job: Job, meanwhile: Callable[[], None] = lambda: None) -> int:
    """Kill and start all pods' processes. Returns the step from which the job resumed."""
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
def test_a_job_that_lost_all_processes_resumes_from_the_pods_disks(job: Job) -> None:
    """From the shared directory if one of the disks is gone."""
    job.start(0, 1, 2)
    job.trains(3)
    job.call("POST", contract.CHECKPOINT_PATH)
    shared = job.until(lambda s: s.durableStep > 0).durableStep
    job.until(lambda s: any(step > shared for step in complete_steps(job)))
    newest = max(complete_steps(job))
    assert restart_all(job) >= newest
    # A checkpoint on the pods' disks is not called durable.
    assert job.call("GET", contract.STATUS_PATH).durableStep == shared
    before = job.call("GET", contract.STATUS_PATH).generation
    # Pod 1 restarts on another node.
    assert restart_all(job, lambda: shutil.rmtree(job.directory / "disk-1")) == shared
    assert job.call("GET", contract.STATUS_PATH).generation > before
    # And what is saved since then is kept.
    job.until(lambda s: any(step > shared for step in complete_steps(job)))
