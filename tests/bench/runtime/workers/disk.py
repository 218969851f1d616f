"""Throughput of saving and loading, beside the bare disk, DCP, and one core that hashes, in turn.

`python disk.py TURNS`; a job of one process.
"""

import hashlib
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

from elastic_runtime import Session
from tests.bench.runtime import memory
from tests.bench.runtime.workers import job
from tests.bench.runtime.workers.ballast import MIB, Heavy, ballast, loss_of

parts = ballast()
log_event = job.Events("disk")


def session(save: Path, tensors: list[torch.Tensor]) -> tuple[Heavy, Session]:
    net = Heavy(tensors)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    return net, Session(
        net, optimizer, samples=10, micro_batches=1, micro_batch_size=1, checkpoint=save
    )


def drop_folder(folder: Path) -> None:
    """No file of the folder is in the page cache afterwards."""
    for path in folder.rglob("*"):
        if path.is_file():
            memory.drop_cached(path)


def write(save: Path) -> float:
    """Seconds from the end of the last step until its save is durable."""
    net, training = session(save, parts)
    began = 0.0
    for step in training.steps(1):
        for batch in step:
            step.backward(loss_of(net, batch.number))
        began = time.perf_counter()
    return time.perf_counter() - began


def read(save: Path) -> float:
    """Seconds until the first step may begin; asserts that every byte is as it was saved."""
    net, training = session(save, [torch.zeros_like(part) for part in parts])
    began = time.perf_counter()
    next(training.steps(2))
    took = time.perf_counter() - began
    assert all(
        torch.equal(net.get_parameter(f"part_{number}"), part) for number, part in enumerate(parts)
    )
    return took


def write_dcp(folder: Path) -> float:
    began = time.perf_counter()
    dcp_save(
        {str(number): part for number, part in enumerate(parts)}, checkpoint_id=folder, no_dist=True
    )
    return time.perf_counter() - began


def read_dcp(folder: Path) -> float:
    drop_folder(folder)
    into = {str(number): torch.zeros_like(part) for number, part in enumerate(parts)}
    began = time.perf_counter()
    dcp_load(into, checkpoint_id=folder, no_dist=True)
    return time.perf_counter() - began


def hash_all() -> float:
    began = time.perf_counter()
    for part in parts:
        hashlib.sha256(part.numpy().data)
    return time.perf_counter() - began


def read_ours(folder: Path) -> float:
    drop_folder(folder)
    return read(folder)


raw = job.FOLDER / "raw"
theirs = job.FOLDER / "dcp"
for turn in range(int(sys.argv[1])):
    save = job.FOLDER / f"save-{turn}"
    contenders: list[tuple[str, Callable[[], float], Callable[[], float]]] = [
        ("raw", partial(memory.write_s, raw, MIB << 20), partial(memory.read_s, raw)),
        ("ours", partial(write, save), partial(read_ours, save)),
        ("dcp", partial(write_dcp, theirs), partial(read_dcp, theirs)),
    ]
    # Rotate the order: a disk may be faster for the first one.
    contenders = [*contenders[turn % 3 :], *contenders[: turn % 3]]
    write_s = {name: timed_write() for name, timed_write, _ in contenders}
    read_s = {name: timed_read() for name, _, timed_read in contenders}
    log_event("disk", write=write_s, read=read_s, hash={"sha256": hash_all()})
    raw.unlink()
    shutil.rmtree(save)
    shutil.rmtree(theirs)
