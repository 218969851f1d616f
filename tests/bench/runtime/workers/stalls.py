"""How long a save keeps the ranks from training: ours, DCP's async save with a kept stager,
torch_checkpointing where it is there.

`python stalls.py RANKS ROUNDS`. In turn, in the same processes and from the same state. A stall is
what the call takes and what the step
after it takes beyond a plain one, so that staging which overlaps with training is counted where it
is waited for.
"""

import importlib
import importlib.util
import logging
import shutil
import statistics
import sys
import time
import warnings
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_saver import async_save

from elastic_runtime import Session
from tests.bench.runtime.workers import job
from tests.bench.runtime.workers.ballast import Heavy, ballast, loss_of

RANKS = int(sys.argv[1])
ROUNDS = int(sys.argv[2])
PERIOD = 12
DCP_AT = 4
OTHER_AT = 8
SAVE = job.FOLDER / "save"
warnings.filterwarnings("ignore")


def other_manager(net: Heavy) -> Any:
    """torch_checkpointing, prewarmed; its direct I/O fails on ext4 (unaligned writes), so it is
    off."""
    logging.disable(logging.CRITICAL)
    made = importlib.import_module("torch_checkpointing")
    config = importlib.import_module("torch_checkpointing.config")
    staging = importlib.import_module("torch_checkpointing.staging").CheckpointStagerConfig
    files = importlib.import_module(
        "torch_checkpointing.storage.filesystem"
    ).LocalFileSystemStorageConfig
    save = config.AsyncCheckpointSaverConfig(
        staging_config=staging(use_pinned_memory=False, use_non_blocking_copy=False)
    )
    manager = made.CheckpointManager(
        made.CheckpointManager.Config(storage_config=files(use_direct_io=False), save=save)
    )
    manager.prewarm_staging({"model": net.state_dict()})
    return manager


def chair() -> int:
    """A number below `RANKS` that nobody else has: the peers' group meets before the job does,
    which begins with whoever is there."""
    for number in range(RANKS):
        with suppress(FileExistsError):
            (job.FOLDER / f"chair-{number}").touch(exist_ok=False)
            return number
    raise RuntimeError(f"more than {RANKS} ranks came")


def durable(step: int) -> None:
    """Returns when the save of `step` is there under its own name."""
    while not any(path.name.endswith(f"{step:09d}") for path in SAVE.glob("step-*")):
        time.sleep(0.002)


def main() -> None:
    parts = ballast()
    net = Heavy(parts)
    session = Session(
        net,
        torch.optim.SGD(net.parameters(), lr=1e-3),
        samples=1000,
        micro_batches=4,
        micro_batch_size=1,
        checkpoint=SAVE,
        save_every=PERIOD,
    )
    stager = DefaultStager(StagingOptions(False, False, False, False))
    plain: list[float] = []
    stalls: dict[str, list[float]] = {"ours": [], "dcp": [], "other": [], "quarter": []}
    mark = 0.0
    call_s = 0.0
    pending: Future[Any] | None = None
    dist.init_process_group(
        "gloo", init_method=f"file://{job.FOLDER}/meet", rank=chair(), world_size=RANKS
    )
    # the peers save with collectives of the default group, on threads, while we meet
    meeting: Any = dist.new_group(backend="gloo")
    # What a first call imports and makes is done before the job begins: a minute of it between two
    # steps would be taken for a hang.
    other: Any = other_manager(net) if importlib.util.find_spec("torch_checkpointing") else None
    async_save({"one": torch.zeros(1)}, checkpoint_id=job.FOLDER / "first-dcp").result()  # type: ignore[union-attr]
    if other:
        other.save(str(job.FOLDER / "first-other"), {"model": net.state_dict()}).result()
    quarter = parts[dist.get_rank() :: RANKS]
    kept = [torch.zeros_like(part) for part in quarter]

    def excess(seconds: float) -> float:
        return max(0.0, seconds - statistics.median(plain))

    for step in session.steps((ROUNDS + 2) * PERIOD):
        cycle = time.perf_counter() - mark
        place = step.number % PERIOD
        counts = step.number > 2 * PERIOD
        if place == 0 and step.number:
            call_s = excess(cycle)
        elif place == 1 and step.number > PERIOD:
            if counts:
                stalls["ours"].append(call_s + excess(cycle))
            durable(step.number - 1)
            dist.barrier(meeting)
        elif place == DCP_AT + 1:
            if counts:
                stalls["dcp"].append(call_s + excess(cycle))
            assert pending
            pending.result()
        elif place == OTHER_AT + 1:
            if counts and other:
                stalls["other"].append(call_s + excess(cycle))
            if other:
                assert pending
                pending.result()
        else:
            plain.append(cycle)
        if place in (DCP_AT, OTHER_AT):
            target = job.FOLDER / f"peer-{place}"
            if session.rank == 0:
                shutil.rmtree(target, ignore_errors=True)
            dist.barrier(meeting)
            began = time.perf_counter()
            call_s = 0.0
            if place == DCP_AT:
                pending = async_save(net.state_dict(), checkpoint_id=target, async_stager=stager)  # type: ignore[assignment]
            elif other:
                pending = other.save(str(target), {"model": net.state_dict()})
                # the optimizer of a step that is next to nothing
                with other.lock():
                    pass
            call_s = time.perf_counter() - began
        if place == 2 and counts:
            dist.barrier(meeting)
            began = time.perf_counter()
            for to, part in zip(kept, quarter, strict=True):
                to.copy_(part)
            stalls["quarter"].append(time.perf_counter() - began)
        dist.barrier(meeting)
        mark = time.perf_counter()
        for batch in step:
            step.backward(loss_of(net, batch.number))
    job.Events(session.rank)(
        "stalls", stalls=stalls, plain=statistics.median(plain), other=bool(other)
    )
    if other:
        other.close()


# torch_checkpointing spawns a process that reads this file again
if __name__ == "__main__":
    main()
