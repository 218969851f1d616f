"""FSDP2 and torch.distributed.checkpoint, restarted at each new size by `--restart`.

A checkpoint of one number of ranks is loaded by another one. Of Cede it has two functions.
`restarted_dcp.py STEPS SECONDS`: how many steps, and how long a micro-batch takes at least.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime.restart import accumulation_steps, stop_requested

STEPS, SECONDS = int(sys.argv[1]), float(sys.argv[2])
MICRO_BATCHES = 12
SAVES = Path("saves")


class Training:
    """A torch Stateful: the model and the optimizer, each rank its shards."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model = model
        self.optimizer = optimizer

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )


def newest() -> int:
    """The step of the newest checkpoint that is complete; DCP writes its metadata last."""
    return max((int(path.parent.name) for path in SAVES.glob("*/.metadata")), default=0)


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    mesh = init_device_mesh("cpu", (world,))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    state = {"training": Training(model, optimizer)}
    saved = step = newest()
    if step:
        load(state, checkpoint_id=SAVES / str(step))
    share = accumulation_steps(MICRO_BATCHES)
    while step < STEPS and not stop_requested(step=step):
        losses = torch.zeros(1)
        for number in range(rank * share, (rank + 1) * share):
            generator = torch.Generator().manual_seed(step * MICRO_BATCHES + number)
            x = torch.randn(4, 8, generator=generator)
            time.sleep(SECONDS)
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean() / share
            loss.backward()
            losses += loss.detach() / world
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(losses)
        step += 1
        if rank == 0:
            line = {"step": step, "loss": losses.item(), "world": world}
            with open("steps.jsonl", "a") as journal:
                journal.write(json.dumps(line) + "\n")
        if step % 10 == 0:
            save(state, checkpoint_id=SAVES / str(step))
            saved = step
    if step != saved:
        save(state, checkpoint_id=SAVES / str(step))
    dist.destroy_process_group()


main()
