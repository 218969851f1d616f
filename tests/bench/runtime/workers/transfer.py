"""What it costs this machine to move the state of the job from two ranks to two others at once.

`python transfer.py RANK ROUNDS SHARDS`, four times: each moves the state, or one of so many shards
of it. Nothing of elastic_runtime takes part. In turn: over gloo, and through shared memory, which
is one copy into it and one out of it.
"""

import mmap
import sys
import time
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from tests.bench.runtime.workers import job

RANKS = 4
PAIRS = RANKS // 2
# Parameters and AdamW's two moments.
COPIES = 3
RANK = int(sys.argv[1])
ROUNDS = int(sys.argv[2])
SHARDS = int(sys.argv[3])
IS_SOURCE = RANK < PAIRS
PARTNER = (RANK + PAIRS) % RANKS


def over_gloo(state: list[torch.Tensor]) -> None:
    start = dist.isend if IS_SOURCE else dist.irecv
    for transfer in [start(tensor, PARTNER, tag=tag) for tag, tensor in enumerate(state)]:
        assert transfer
        transfer.wait()


def through(shared: list[torch.Tensor], state: list[torch.Tensor]) -> None:
    """The partner waits until all is in shared memory: on as many cores as pairs, nothing is gained
    if it does not."""
    if IS_SOURCE:
        for memory, tensor in zip(shared, state, strict=True):
            memory.copy_(tensor)
    dist.barrier()
    if not IS_SOURCE:
        for tensor, received in zip(state, shared, strict=True):
            tensor.copy_(received)


def shared_with_partner(state: list[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors of the same shapes in memory that both ranks of this pair have mapped."""
    path = Path("/dev/shm") / f"{job.FOLDER.name}-{min(RANK, PARTNER)}"  # noqa: S108
    size = sum(tensor.nbytes for tensor in state)
    if IS_SOURCE:
        path.write_bytes(bytes(size))
    dist.barrier()
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
    dist.barrier()
    path.unlink(missing_ok=True)
    flat = torch.frombuffer(memory, dtype=torch.float32)
    parts = torch.split(flat, [tensor.numel() for tensor in state])
    return [part.view_as(tensor) for part, tensor in zip(parts, state, strict=True)]


def main() -> None:
    shard = [p.detach()[: len(p) // SHARDS] for p in job.model().parameters()]
    state = [tensor.clone() for _ in range(COPIES) for tensor in shard]
    dist.init_process_group(
        "gloo", init_method=f"file://{job.FOLDER}/meet", rank=RANK, world_size=RANKS
    )
    shared = shared_with_partner(state)
    log_event = job.Events(RANK)
    for number in range(ROUNDS + 1):
        seconds: dict[str, float] = {}
        for name, move in (
            ("gloo", partial(over_gloo, state)),
            ("shared", partial(through, shared, state)),
        ):
            dist.barrier()
            began = time.perf_counter()
            move()
            dist.barrier()
            seconds[name] = time.perf_counter() - began
        # The first one connects the pairs.
        if number:
            log_event("transfer", seconds=seconds)


main()
