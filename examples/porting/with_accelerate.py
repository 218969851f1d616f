"""A classifier that Accelerate no longer wraps, elastic. Run it with
`python -m elastic_runtime --local 2 with_accelerate.py`."""

import argparse
from pathlib import Path

import torch
from made_up import Digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from elastic_runtime import Session

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--out", type=Path, default=Path("out"))
args = parser.parse_args()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)

loader = DataLoader(Digits(), batch_size=4, shuffle=True, num_workers=2)
session = Session(
    model,
    optimizer,
    data=loader,
    micro_batches=8,
    clip=1.0,
    lr_schedulers=[scheduler],
    checkpoint=args.out / "save",
    save_every=50,
    journal=args.out,
)
for step in session.steps(args.steps):
    for images, labels in step.data:
        step.backward(functional.cross_entropy(model(images), labels))
