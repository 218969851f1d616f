"""Trains the small GPT, elastic. Run it with `python -m elastic_runtime train.py --out DIR`."""

import argparse
import time
from pathlib import Path

import torch
from model import GPT, Text, loss_of

from elastic_runtime import Session

parser = argparse.ArgumentParser()
parser.add_argument("--text", default=str(Path(__file__).with_name("LICENSE")))
parser.add_argument("--out", default="out")
parser.add_argument("--steps", type=int, default=100_000)
parser.add_argument("--pause", type=float, default=0, help="seconds after each micro-batch")
args = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(0)
text = Text(args.text)
model = GPT(len(text.characters), text.context)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

session = Session(
    model,
    optimizer,
    samples=len(text),
    micro_batches=16,
    micro_batch_size=4,
    checkpoint=f"{args.out}/save",
    save_every=20,
    journal=args.out,
)
for step in session.steps(args.steps):
    for batch in step:
        step.backward(loss_of(model, *text.batch(batch.indices)))
        time.sleep(args.pause)
