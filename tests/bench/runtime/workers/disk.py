"""How fast a state comes to the disk and back, beside the bare disk and DCP, in turn: `python
disk.py TURNS`. A job of one."""

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
say = job.Events("disk")


def session(save: Path, tensors: list[torch.Tensor]) -> tuple[Heavy, Session]:
    net = Heavy(tensors)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    return net, Session(
        net, optimizer, samples=10, micro_batches=1, micro_batch_size=1, checkpoint=save
    )


def forget(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            memory.drop_cached(path)


def write(save: Path) -> float:
    """Seconds from the end of the last step until its save is durable."""
    net, one = session(save, parts)
    began = 0.0
    for step in one.steps(1):
        for batch in step:
            step.backward(loss_of(net, batch.number))
        began = time.perf_counter()
    return time.perf_counter() - began


def read(save: Path) -> float:
    """Seconds until the first step may begin, with every byte as it was saved."""
    net, one = session(save, [torch.zeros_like(part) for part in parts])
    began = time.perf_counter()
    next(one.steps(2))
    took = time.perf_counter() - began
    assert all(
        torch.equal(net.get_parameter(f"part_{number}"), part) for number, part in enumerate(parts)
    )
    return took


def write_dcp(to: Path) -> float:
    began = time.perf_counter()
    dcp_save(
        {str(number): part for number, part in enumerate(parts)}, checkpoint_id=to, no_dist=True
    )
    return time.perf_counter() - began


def read_dcp(of: Path) -> float:
    forget(of)
    into = {str(number): torch.zeros_like(part) for number, part in enumerate(parts)}
    began = time.perf_counter()
    dcp_load(into, checkpoint_id=of, no_dist=True)
    return time.perf_counter() - began


def read_ours(of: Path) -> float:
    forget(of)
    return read(of)


raw = job.FOLDER / "raw"
theirs = job.FOLDER / "dcp"
for turn in range(int(sys.argv[1])):
    save = job.FOLDER / f"save-{turn}"
    ways: list[tuple[str, Callable[[], float], Callable[[], float]]] = [
        ("raw", partial(memory.write_s, raw, MIB << 20), partial(memory.read_s, raw)),
        ("ours", partial(write, save), partial(read_ours, save)),
        ("dcp", partial(write_dcp, theirs), partial(read_dcp, theirs)),
    ]
    # a disk may be quicker for who comes first
    ways = [*ways[turn % 3 :], *ways[: turn % 3]]
    wrote = {who: how() for who, how, _ in ways}
    say("disk", write=wrote, read={who: how() for who, _, how in ways})
    raw.unlink()
    shutil.rmtree(save)
    shutil.rmtree(theirs)
