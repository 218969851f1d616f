"""A loop with Accelerate as it is, for `--restart`: `train.py STEPS SECONDS`."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, skip_first_batches
from torch.utils.data import DataLoader, TensorDataset

from elastic_runtime.restart import accumulation_steps, stop_requested

STEPS, SECONDS = int(sys.argv[1]), float(sys.argv[2])
MICRO_BATCHES = 4
SAVES = Path("out")

torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=2)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulation_steps(MICRO_BATCHES))
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
share = accelerator.gradient_accumulation_steps


def save() -> None:
    """Under its name once it is complete."""
    accelerator.save_state(SAVES / "part")
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        (SAVES / "part").rename(SAVES / str(step))


def newest() -> int:
    return max((int(path.name) for path in SAVES.glob("[0-9]*")), default=0)


def batches(done: int) -> Iterator[Any]:
    yield from skip_first_batches(loader, done % len(loader))
    while True:
        yield from loader


saved = step = newest()
if step:
    accelerator.load_state(SAVES / str(step))
    # It is the number of micro-batches at another size, and only some ranks load it.
    accelerator.step = 0
data = batches(step * share)
while step < STEPS and not stop_requested(accelerator.device, step):
    losses = torch.zeros(1)
    for _ in range(share):
        (x,) = next(data)
        with accelerator.accumulate(model):
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses += loss.detach() / share
    step += 1
    time.sleep(SECONDS)
    mean = accelerator.reduce(losses, "mean").item()
    if accelerator.is_main_process:
        with open("steps.jsonl", "a") as file:
            line = {"step": step, "world": accelerator.num_processes, "loss": mean}
            file.write(json.dumps(line) + "\n")
    if step % 10 == 0:
        save()
        saved = step
if saved != step:
    save()
accelerator.end_training()
