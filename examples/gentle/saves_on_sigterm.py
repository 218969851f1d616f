"""An ordinary training with torchrun, which knows nothing of Cede: all ranks save after the same
step when they get the signal to end, and continue from there. `saves_on_sigterm.py DIRECTORY`."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEP_S = 0.3
"""How long a step takes at least."""
EXIT_CODE = 143
"""Not 0: the training is not complete."""


def main(folder: Path) -> None:
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    begin = step = load(folder, model, optimizer)
    while True:
        time.sleep(STEP_S)
        x = torch.randn(4, 8)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if rank == 0:
            line = {"step": step, "loss": loss.item(), "size": dist.get_world_size()}
            line |= {"generation": begin, "time": time.time()}
            with open(folder / "steps-0-0.jsonl", "a") as journal:
                journal.write(json.dumps(line) + "\n")
        # the signal reaches the ranks in different steps
        stopping = torch.tensor(float(bool(signals)))
        dist.all_reduce(stopping)
        if stopping:
            break
    if rank == 0:
        save(folder, model, optimizer, step)
    # torchrun kills the other ranks when the first has ended
    dist.barrier()
    sys.exit(EXIT_CODE)


def load(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Returns the step that was saved, or 0."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "save.pt").exists():
        return 0
    saved = torch.load(folder / "save.pt")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return int(saved["step"])


def save(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, folder / "save.part")
    os.replace(folder / "save.part", folder / "save.pt")


main(Path(sys.argv[1]))
