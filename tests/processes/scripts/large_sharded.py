"""A large model that is built on the meta device. It writes how much memory its start has added."""

import re
import sys
from pathlib import Path
from typing import Any

import torch

# What sharding imports is no memory of the model.
import torch._dynamo
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Session, Sharded


def wrap(model: Any, mesh: DeviceMesh) -> None:
    for part in model:
        fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)


def kilobytes(kind: str) -> int:
    """VmRSS: what this process has now; VmHWM: what it has had at most."""
    line = re.search(rf"{kind}:\s*(\d+)", Path("/proc/self/status").read_text())
    assert line
    return int(line[1])


torch.set_num_threads(1)
with torch.device("meta"):
    model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048, bias=False) for _ in range(8)))
session = Session(
    model,
    torch.optim.AdamW(model.parameters()),
    samples=10,
    micro_batches=4,
    strategy=Sharded(wrap),
    checkpoint="save",
)
before = kilobytes("VmRSS")
for number, step in enumerate(session.steps(int(sys.argv[1]))):
    if not number:
        extra = 1024 * (kilobytes("VmHWM") - before)
        Path(f"memory-{session.rank}").write_text(str(extra))
    for _ in step:
        step.backward(model(torch.ones(1, 2048)).square().mean())
