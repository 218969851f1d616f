"""The cost of a step: ours, a bare loop with the same hooks, and DDP.

`python steady.py STEPS`

The three take turns step by step in the same processes. Rank 0 reports the seconds of every step
and the number of collectives per step.
"""

import copy
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from elastic_runtime import Session
from elastic_runtime.distributed.group import Group
from elastic_runtime.strategies.gradient_buckets import GradientBuckets
from tests.bench.runtime.workers import job

STEPS = int(sys.argv[1])
SETTLE = 5
MICRO_BATCHES = 2

# Number of our collectives so far.
made = 0
original_all_reduce = Group.all_reduce


def counted(self: Group, tensor: torch.Tensor) -> Any:
    global made
    made += 1
    return original_all_reduce(self, tensor)


Group.all_reduce = counted  # type: ignore[method-assign]


class Plain(Group):
    """torch's default group, as a bare loop uses it."""

    def __init__(self) -> None:
        self.made = 0

    def all_reduce(self, tensor: torch.Tensor) -> Any:
        self.made += 1
        return dist.all_reduce(tensor, async_op=True)


class Bare:
    """Forward, backward, the same buckets reduced, the loss reduced, the optimizer."""

    def __init__(self, net: torch.nn.Module) -> None:
        self.net = net
        self.optimizer = job.optimizer_of(net)
        self.buckets = GradientBuckets(net)
        self.group = Plain()

    def step(self, number: int, micro_batches: list[int]) -> None:
        self.buckets.begin_step(self.group)
        total = torch.zeros(1)
        for micro_batch in micro_batches:
            self.buckets.in_last_pass = micro_batch == micro_batches[-1]
            loss = job.loss_of(self.net, job.batch(number, micro_batch)) / MICRO_BATCHES
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        self.buckets.reduce(total)
        # A loop that prints its loss needs this collective; ours travels with the last gradients.
        self.group.all_reduce(total).wait()
        self.buckets.write_gradients()
        self.optimizer.step()


class Ddp:
    def __init__(self, net: torch.nn.Module) -> None:
        self.net = DistributedDataParallel(net)
        self.optimizer = job.optimizer_of(net)

    def step(self, number: int, micro_batches: list[int]) -> None:
        self.optimizer.zero_grad(set_to_none=False)
        for micro_batch in micro_batches:
            job.loss_of(self.net, job.batch(number, micro_batch)).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


net = job.model()
others = [copy.deepcopy(net), copy.deepcopy(net)]
session = Session(
    net,
    job.optimizer_of(net),
    samples=100_000,
    micro_batches=MICRO_BATCHES,
    micro_batch_size=job.BATCH,
)
took: dict[str, list[float]] = {"ours": [], "bare": [], "ddp": []}
mark = 0.0
counts = (0, 0)
for step in session.steps(STEPS + SETTLE):
    now = time.perf_counter()
    if step.number == 0:
        meet = f"file://{job.FOLDER}/meet"
        dist.init_process_group(
            "gloo", init_method=meet, rank=session.rank, world_size=session.world
        )
        bare = Bare(others[0])
        ddp = Ddp(others[1])
    elif step.number > SETTLE:
        took["ours"].append(now - mark)
    if step.number == SETTLE:
        counts = (made, bare.group.made)
    micro_batches = [session.rank]
    for name, other in (("bare", bare), ("ddp", ddp)):
        began = time.perf_counter()
        other.step(step.number, micro_batches)
        if step.number >= SETTLE:
            took[name].append(time.perf_counter() - began)
    mark = time.perf_counter()
    for batch in step:
        step.backward(job.loss_of(net, job.batch(step.number, batch.number)))
if session.rank == 0:
    collectives = {
        "ours": (made - counts[0]) / STEPS,
        "bare": (bare.group.made - counts[1]) / STEPS,
    }
    job.Events("steady")("steady", seconds=took, collectives=collectives)
