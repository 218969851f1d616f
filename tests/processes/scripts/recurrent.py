"""Sequences that are read in parts; the hidden states go on with the class of the porting guide."""

import os
import sys
import time
from typing import Any

import torch

from elastic_runtime import Session

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
PARTS = 7
# (sequences, length, width)
sequences = torch.randn(20, 3 * PARTS, 6)
model = torch.nn.GRU(6, 6, batch_first=True)
# The test writes the class before this script.
memory: Any = globals()["Memory"](torch.zeros(20, 6))
session = Session(
    model,
    torch.optim.AdamW(model.parameters(), lr=1e-3),
    samples=20,
    micro_batches=10,
    micro_batch_size=2,
    stateful=[memory],
    checkpoint="save",
    journal="log",
)
for step in session.steps(int(sys.argv[1])):
    hidden = memory.begin(step.number)
    first = 3 * (step.number % PARTS)
    # (sequences, 3, width)
    part = sequences[:, first : first + 3]
    results = [torch.empty(0, 1 + 6)]
    for batch in step:
        time.sleep(float(sys.argv[2]))
        outputs, last = model(part[batch.indices], hidden[None, batch.indices])
        step.backward((outputs - part[batch.indices].roll(1, 2)).square().mean())
        results.append(torch.cat([torch.tensor(batch.indices)[:, None], last[0].detach()], 1))
    if os.path.exists(f"lost-{session.rank}"):
        os.remove(f"lost-{session.rank}")
        os._exit(1)
    # (sequences, 1 + width)
    gathered = step.all_gather(torch.cat(results))
    memory.keep(step.number, gathered[:, 0].long(), gathered[:, 1:])
