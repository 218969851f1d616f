"""The training as a script for torchrun: `plain.py DIRECTORY [on-signal]`.

It saves every ten steps. With `on-signal` all ranks also save after the same step when they get
SIGTERM, and end. It is the script of all levels but L2.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.bench.levels.workers import tiny

# Not 0: the training is not complete.
EXIT_CODE = 143


def main(folder: Path, *, is_told: bool) -> None:
    signals: list[int] = []
    if is_told:
        signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    net = DistributedDataParallel(tiny.model())
    optimizer = tiny.optimizer_of(net)
    path = folder / "save.pt"
    step = 0
    if path.exists():
        saved = torch.load(path)
        net.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    # grows with every start, and is the same for all that one process writes
    generation = int(time.time() * 1000)
    stopping = torch.zeros(1)
    while not stopping:
        for _ in range(tiny.MICRO_BATCHES // world):
            tiny.loss_of(net).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if rank == 0:
            line = {"step": step, "size": world, "generation": generation, "time": time.time()}
            with open(folder / "steps-0.jsonl", "a") as journal:
                journal.write(json.dumps(line) + "\n")
        # the signal reaches the ranks in different steps
        stopping = torch.tensor([float(bool(signals))])
        dist.all_reduce(stopping)
        if rank == 0 and (stopping or step % tiny.SAVE_EVERY == 0):
            state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, folder / "save.part")
            os.replace(folder / "save.part", path)
    # torchrun kills the others when the first rank has ended
    dist.barrier()
    sys.exit(EXIT_CODE)


if __name__ == "__main__":
    main(Path(sys.argv[1]), is_told=tiny.ON_SIGNAL in sys.argv)
