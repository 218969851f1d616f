"""How long a save keeps the ranks from training.

`python stalls.py RANKS ROUNDS`

Ours, DCP's async save with a kept stager, and torch_checkpointing if it is installed take turns in
the same processes, with the same state. A stall is the duration of the call plus the excess of the
next step over a plain step. So staging that overlaps with training counts where the step waits.
What is lost in all also has the excess of the steps behind it, in which the files are written. The
machine's floor is a bare copy of a quarter of the state by all ranks at once.
"""

import importlib
import importlib.util
import logging
import shutil
import statistics
import sys
import time
import warnings
from collections import defaultdict
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
# One save in each section, at its first step.
SECTION = 60
SAVES = ("ours", "dcp", "other")
PERIOD = SECTION * len(SAVES)
# Steps from a save on that count for it. Then the ranks wait until it is durable.
WATCHED = 45
SAVE = job.FOLDER / "save"
warnings.filterwarnings("ignore")


def other_manager(net: Heavy) -> Any:
    """A prewarmed manager of torch_checkpointing.

    Its direct I/O is off, because it fails on ext4 (unaligned writes).
    """
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


def claim_rank() -> int:
    """A rank for the peers' process group, unique below `RANKS`.

    The peers' group forms before our job, which begins with the ranks that have arrived.
    """
    for number in range(RANKS):
        with suppress(FileExistsError):
            (job.FOLDER / f"rank-{number}").touch(exist_ok=False)
            return number
    raise RuntimeError(f"more than {RANKS} ranks came")


def wait_until_durable(step: int) -> None:
    """Returns when the save of `step` has its final name."""
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
    losses: list[float] = []
    samples: dict[str, list[float]] = defaultdict(list)
    mark = 0.0
    pending: Future[Any] | None = None
    dist.init_process_group(
        "gloo", init_method=f"file://{job.FOLDER}/meet", rank=claim_rank(), world_size=RANKS
    )
    # The peers use the default group on threads, so the barriers need a group of their own.
    barrier_group: Any = dist.new_group(backend="gloo")
    # First calls import and allocate for up to a minute. Between two steps that would count as a
    # hang, so they happen before the job begins.
    other: Any = other_manager(net) if importlib.util.find_spec("torch_checkpointing") else None
    async_save({"x": torch.zeros(1)}, checkpoint_id=job.FOLDER / "first-dcp").result()  # type: ignore[union-attr]
    if other:
        other.save(str(job.FOLDER / "first-other"), {"model": net.state_dict()}).result()
    quarter = parts[dist.get_rank() :: RANKS]
    kept = [torch.zeros_like(part) for part in quarter]

    for step in session.steps((ROUNDS + 2) * PERIOD):
        # Of the step before, and of what followed its commit.
        cycle = time.perf_counter() - mark
        name = SAVES[step.number % PERIOD // SECTION]
        place = step.number % SECTION
        excess = cycle - statistics.median(plain or [cycle])
        counts = step.number >= 2 * PERIOD
        if place == 0:
            losses = [excess]
        elif place <= WATCHED:
            losses.append(excess)
        else:
            plain.append(cycle)
        if place == 0 and name != "ours":
            target = job.FOLDER / f"peer-{name}"
            if session.rank == 0:
                shutil.rmtree(target, ignore_errors=True)
            dist.barrier(barrier_group)
            began = time.perf_counter()
            if name == "dcp":
                # torch 2.11 stages no OrderedDict.
                state = dict(net.state_dict())
                pending = async_save(state, checkpoint_id=target, async_stager=stager)  # type: ignore[assignment]
            elif other:
                pending = other.save(str(target), {"model": net.state_dict()})
                # Stands for the optimizer step, which would wait for this lock.
                with other.lock():
                    pass
            losses = [time.perf_counter() - began]
        if place == WATCHED:
            if name != "ours" and pending:
                pending.result()
            elif name == "ours" and step.number > PERIOD:
                wait_until_durable(step.number - WATCHED)
            pending = None
            if counts and (other or name != "other"):
                samples[name].append(sum(max(0.0, loss) for loss in losses[:2]))
                samples[f"{name} call"].append(losses[0])
                samples[f"{name} in all"].append(sum(losses))
        if place == SECTION - 2 and counts:
            dist.barrier(barrier_group)
            began = time.perf_counter()
            for copy, part in zip(kept, quarter, strict=True):
                copy.copy_(part)
            samples["quarter"].append(time.perf_counter() - began)
        dist.barrier(barrier_group)
        mark = time.perf_counter()
        for batch in step:
            step.backward(loss_of(net, batch.number))
    job.Events(session.rank)(
        "stalls", stalls=samples, plain=statistics.median(plain), other=bool(other)
    )
    if other:
        other.close()


# torch_checkpointing spawns a process that imports this file again.
if __name__ == "__main__":
    main()
