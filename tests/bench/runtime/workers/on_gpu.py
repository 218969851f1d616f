"""One model in our loop and in a bare loop, which take turns in blocks of steps.

`on_gpu.py DEVICE WIDTH LAYERS SEQUENCES LENGTH STEPS ROUNDS`. Our loop also runs without one of its
waits, then without two, then without three. Reports the seconds of a step in each block.
"""

import copy
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from elastic_runtime import Session
from elastic_runtime.distributed import nccl
from elastic_runtime.distributed.group import Group
from elastic_runtime.training import loss_weights
from elastic_runtime.training.loss_weights import StepLoss, StepLosses
from tests.bench.runtime.workers import job

DEVICE = torch.device(sys.argv[1])
WIDTH, LAYERS, SEQUENCES, LENGTH, STEPS, ROUNDS = map(int, sys.argv[2:])
# Steps between two looks of the bare loop at its loss.
LOG_EVERY = 10
all_reduce = Group.all_reduce


def with_nccl(group: Group, store: Any, rank: int, world: int) -> Any:
    """As several ranks connect; one rank alone would use no NCCL."""
    communicator = nccl.make(store, rank, world)
    group._communicators.append(communicator)
    nccl.connect(communicator, group._device, group)
    return communicator


def unread_loss(summed: torch.Tensor, step: int) -> StepLoss:
    return StepLoss(0.0, 1.0)


weights = torch.full((1,), loss_weights.NOT_GIVEN, device=DEVICE)


def to_sum(losses: StepLosses) -> torch.Tensor:
    """Its own copies the weights to the GPU."""
    return torch.cat([losses._losses, weights])


def without_vote(group: Group, tensor: torch.Tensor) -> Any:
    """On a CPU also without the sums of gradients, which one rank does not need."""
    return all_reduce(group, tensor) if tensor.is_cuda else nccl.CompletedWork()


# By side: what it replaces beside what the sides before it replace.
REPLACED: dict[str, list[tuple[Any, str, Callable[..., Any]]]] = {
    "bare": [],
    "ours": [],
    "no poll": [(nccl.Work, "wait", nccl.Work.block_current_stream)],
    "no loss": [(loss_weights, "step_loss", unread_loss), (StepLosses, "to_sum", to_sum)],
    "no vote": [(Group, "all_reduce", without_vote)],
}
ALL = list(REPLACED)
OURS = ALL[1:]
took: dict[str, list[float]] = {side: [] for side in ALL}


@contextmanager
def measured(side: str) -> Iterator[None]:
    """A block of steps."""
    with ExitStack() as stack:
        for name in ALL[: ALL.index(side) + 1]:
            for owner, attribute, replacement in REPLACED[name]:
                stack.enter_context(patch.object(owner, attribute, replacement))
        began = now()
        yield
        took[side].append((now() - began) / STEPS)


@contextmanager
def counting_waits(waits: Counter[str]) -> Iterator[None]:
    """The lines of Python in which torch waits for the GPU meanwhile; not those that poll it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        yield
        torch.cuda.set_sync_debug_mode("default")
    lines = [line for line in caught if "called a synchronizing" in str(line.message)]
    waits.update(f"{Path(line.filename).name}:{line.lineno}" for line in lines)


def model() -> nn.Module:
    torch.manual_seed(0)
    heads = max(1, WIDTH // 64)
    layers = [
        nn.TransformerEncoderLayer(
            WIDTH, heads, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        for _ in range(LAYERS)
    ]
    return nn.Sequential(*layers).to(DEVICE)


def optimizer_of(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(net.parameters(), lr=1e-5, fused=True)


def loss_of(net: nn.Module) -> torch.Tensor:
    with torch.autocast(DEVICE.type, torch.bfloat16):
        return job.loss_of(net, x)


def now() -> float:
    """Seconds, when the GPU has done all that is queued."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def bare_block() -> None:
    for number in range(STEPS):
        loss = loss_of(bare)
        loss.backward()  # type: ignore[no-untyped-call]
        bare_optimizer.step()
        bare_optimizer.zero_grad()
        if number % LOG_EVERY == 0:
            loss.item()


if DEVICE.type == "cuda":
    patch.object(Group, "_make_nccl", with_nccl).start()
net = model()
bare = copy.deepcopy(net)
bare_optimizer = optimizer_of(bare)
# (sequences, length, width)
x = torch.randn(SEQUENCES, LENGTH, WIDTH, device=DEVICE)
session = Session(net, optimizer_of(net), samples=1000, micro_batches=1, micro_batch_size=1)
waits: Counter[str] = Counter()
block = ExitStack()
watched = ExitStack()
# One round more, to warm up, and a step, to end the last block.
for step in session.steps((ROUNDS + 1) * len(OURS) * STEPS + 1):
    number, place = divmod(step.number, STEPS)
    if place == 0:
        block.close()
        side = OURS[number % len(OURS)]
        if side == "ours":
            with measured("bare"):
                bare_block()
        block.enter_context(measured(side))
    if DEVICE.type == "cuda" and step.number == 1:
        watched.enter_context(counting_waits(waits))
    elif step.number == 2:
        watched.close()
    for _ in step:
        step.backward(loss_of(net))
job.Events("on-gpu")(
    "on-gpu",
    seconds={side: seconds[1 : ROUNDS + 1] for side, seconds in took.items()},
    waits=waits,
    facts={
        "device": torch.cuda.get_device_name() if DEVICE.type == "cuda" else "CPU",
        "torch": torch.__version__,
    },
)
