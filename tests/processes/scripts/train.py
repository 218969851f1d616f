"""`train.py STEPS SECONDS`: until which step, and how long a micro-batch takes at least."""

import sys
import time

import torch

from elastic_runtime import Session

torch.set_num_threads(1)
torch.manual_seed(0)
# (samples, width)
data = torch.randn(97, 64)
noise = torch.randn(97, 8)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
session = Session(
    model,
    optimizer,
    samples=97,
    micro_batches=10,
    micro_batch_size=3,
    checkpoint="save",
    journal="log",
)
for step in session.steps(int(sys.argv[1])):
    for batch in step:
        time.sleep(float(sys.argv[2]))
        step.backward((model(data[batch.indices]) - noise[batch.indices]).square().mean())
