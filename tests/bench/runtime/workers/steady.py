"""What a step costs: ours, a bare loop with the same hooks, and DDP, one after the other in the
same processes, step by step.

`python steady.py STEPS`: rank 0 says the seconds of each and how many collectives each made in a
step.
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
from elastic_runtime.strategies.gradient_buckets import Buckets
from tests.bench.runtime.workers import job

STEPS = int(sys.argv[1])
SETTLE = 5
MICRO_BATCHES = 2

# collectives of ours so far
made = 0
plainly = Group.all_reduce


def counted(self: Group, tensor: torch.Tensor) -> Any:
    global made
    made += 1
    return plainly(self, tensor)


Group.all_reduce = counted  # type: ignore[method-assign]


class Plain(Group):
    """torch's own default group, as a bare loop uses it."""

    def __init__(self) -> None:
        self.made = 0

    def all_reduce(self, tensor: torch.Tensor) -> Any:
        self.made += 1
        return dist.all_reduce(tensor, async_op=True)


class Bare:
    """Forward, backward, the same buckets reduced, the loss reduced, the optimizer."""

    def __init__(self, net: torch.nn.Module) -> None:
        self.net, self.optimizer, self.buckets, self.group = (
            net,
            job.optimizer_of(net),
            Buckets(net),
            Plain(),
        )

    def step(self, number: int, mine: list[int]) -> None:
        self.buckets.start(self.group)
        total = torch.zeros(1)
        for at in mine:
            self.buckets.expect_last = at == mine[-1]
            loss = job.loss_of(self.net, job.batch(number, at)) / MICRO_BATCHES
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        self.buckets.reduce(total)
        # as a loop does that shows its loss; ours rides with the last gradients
        self.group.all_reduce(total).wait()
        self.buckets.give_gradients()
        self.optimizer.step()


class Ddp:
    def __init__(self, net: torch.nn.Module) -> None:
        self.net, self.optimizer = DistributedDataParallel(net), job.optimizer_of(net)

    def step(self, number: int, mine: list[int]) -> None:
        self.optimizer.zero_grad(set_to_none=False)
        for at in mine:
            job.loss_of(self.net, job.batch(number, at)).backward()  # type: ignore[no-untyped-call]
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
    mine = [session.rank]
    for name, other in (("bare", bare), ("ddp", ddp)):
        began = time.perf_counter()
        other.step(step.number, mine)
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
