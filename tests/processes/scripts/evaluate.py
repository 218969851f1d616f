"""Evaluates in every fifth step, and behind the loop. Every rank writes what it got."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Deterministic, Session, Sharded


def wrap(model: Any, mesh: DeviceMesh) -> None:
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)


STRATEGIES: dict[str, Any] = {
    "deterministic": Deterministic(),
    "fsdp": Sharded(wrap),
    "peer-copies": Sharded(wrap, peer_copy_every=2),
}
strategy = os.environ.get("STRATEGY", "deterministic")
torch.set_num_threads(1)
torch.manual_seed(0)
# (samples, width)
data = torch.randn(97, 16)
targets = torch.randn(97, 8)
# With the samples that are evaluated.
questions = torch.randn(int(os.environ.get("QUESTIONS", "41")), 16)
layers = [torch.nn.Linear(16, 16), torch.nn.Dropout(0.1), torch.nn.Tanh(), torch.nn.Linear(16, 8)]
if strategy == "deterministic":
    layers.insert(1, torch.nn.BatchNorm1d(16))
model = torch.nn.Sequential(*layers)
session = Session(
    model,
    torch.optim.AdamW(model.parameters(), lr=1e-4),
    samples=97,
    micro_batches=10,
    micro_batch_size=3,
    strategy=STRATEGIES[strategy],
    checkpoint="save",
    journal="log",
)
pause_s = float(sys.argv[2])
results = open(f"log/results-{os.getpid()}.jsonl", "a", buffering=1)  # noqa: SIM115


def quality(indices: list[int]) -> dict[str, Any]:
    # So long a test keeps a file of this name.
    time.sleep(0.2 if Path("slow").exists() else 0.002)
    answers = model(questions[indices])
    return {
        "loss": answers.square().sum(),
        "count": len(indices),
        "by_class": torch.bincount(answers.argmax(1), minlength=8),
        # Alike at every size only if every micro-batch has its own seed.
        "draw": torch.rand(()),
    }


def evaluate(step: int) -> None:
    sums = session.evaluate(len(questions), quality, micro_batch_size=2)
    line = {
        "step": step,
        "rank": session.rank,
        "world": session.world,
        "generation": session.generation,
        "complete": sums.is_complete,
        "sums": {
            name: value.tolist() if isinstance(value, torch.Tensor) else value
            for name, value in sums.items()
        },
    }
    results.write(json.dumps(line) + "\n")


for step in session.steps(int(sys.argv[1])):
    if step.number % 5 == 0:
        evaluate(step.number)
    for batch in step:
        time.sleep(pause_s)
        step.backward((model(data[batch.indices]) - targets[batch.indices]).square().mean())
evaluate(session.step)
