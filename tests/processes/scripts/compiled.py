"""A compiled model in mixed precision, with an lr_scheduler, gradient clipping and ordered sums."""

import sys
import time
import warnings

import torch

from elastic_runtime import Deterministic, Session

# Of torch's compiler, about its own code.
warnings.filterwarnings("ignore")
torch.set_num_threads(1)
torch.manual_seed(0)
# (samples, width)
data = torch.randn(97, 64)
targets = torch.randn(97, 8)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
compiled = torch.compile(model, backend="eager")
session = Session(
    model,
    optimizer,
    samples=97,
    micro_batches=10,
    micro_batch_size=3,
    lr_schedulers=[torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)],
    strategy=Deterministic(),
    journal="log",
)
for step in session.steps(int(sys.argv[1])):
    for batch in step:
        time.sleep(float(sys.argv[2]))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = compiled(data[batch.indices])
            loss = (outputs - targets[batch.indices]).float().square().mean()
        step.backward(loss)
    step.clip(1.0)
