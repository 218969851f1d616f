"""A classifier with Accelerate: it wraps model, optimizer and loader, and divides the loss."""

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from made_up import Digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--out", type=Path, default=Path("out"))
args = parser.parse_args()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)

accelerator = Accelerator(gradient_accumulation_steps=8)
loader = DataLoader(Digits(), batch_size=4, shuffle=True, num_workers=2)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
step = 0
while step < args.steps:
    for images, labels in loader:
        with accelerator.accumulate(model):
            accelerator.backward(functional.cross_entropy(model(images), labels))
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                step += 1
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients and step % 50 == 0:
            accelerator.save_state(args.out / "save")
        if step == args.steps:
            break
