"""A model large enough that every rank has pieces of it to save."""

import sys
import time

import torch

from elastic_runtime import Session

torch.set_num_threads(1)
torch.manual_seed(0)
# (samples, width)
data = torch.randn(97, 300)
model = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.Tanh(), torch.nn.Linear(300, 8))
session = Session(
    model,
    torch.optim.AdamW(model.parameters(), lr=1e-4),
    samples=97,
    micro_batches=6,
    micro_batch_size=3,
    checkpoint="save",
    journal="log",
)
for step in session.steps(int(sys.argv[1])):
    for batch in step:
        time.sleep(float(sys.argv[2]))
        step.backward(model(data[batch.indices]).square().mean())
