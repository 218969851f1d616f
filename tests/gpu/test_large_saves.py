"""Saves of a state on a GPU that is large enough for its way to the host to take time."""

import statistics
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from elastic_runtime import Session, Sharded, device
from elastic_runtime.checkpointing import restore
from elastic_runtime.strategies import fsdp2_internals
from tests.gpu.sharding import skip_if_refused

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]
DEVICE = device()
# 134 MB of parameters in float32, and twice as much of AdamW.
WIDTH = 2048 if DEVICE.type == "cuda" else 64
LAYERS = 8
SAVE_EVERY = 8
INTERRUPTED_AT, END = 24, 32


def wrap(model: Any, mesh: DeviceMesh) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def train(directory: Path, until: int, strategy: Any) -> tuple[dict[int, float], dict[int, float]]:
    """Loss and seconds of each step, which end when the GPU has nothing more to do."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]
    model = torch.nn.Sequential(*layers).to(DEVICE)
    session = Session(
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True),
        samples=16,
        micro_batches=2,
        checkpoint=directory,
        save_every=SAVE_EVERY,
        strategy=strategy,
    )
    losses, seconds = {}, {}
    began = time.perf_counter()
    while step := session.begin(until):
        for batch in step:
            draws = torch.Generator().manual_seed(batch.number)
            # (samples, width)
            inputs = torch.randn(64, WIDTH, generator=draws).to(DEVICE)
            with torch.autocast(DEVICE.type, torch.bfloat16):
                step.backward((model(inputs).float() - inputs).square().mean())
        assert session.commit()
        assert session.loss is not None
        losses[step.number] = session.loss
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        seconds[step.number] = now - began
        began = now
    fsdp2_internals.drop_mesh()
    return losses, seconds


@pytest.mark.parametrize("name", ["replicated", "sharded"])
def test_a_large_state_is_saved_and_resumed(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints what a save adds to a step. Sharded: FSDP2 in bfloat16, of one rank."""
    if name == "sharded":
        skip_if_refused()

    def strategy() -> Any:
        return Sharded(wrap) if name == "sharded" else None

    expected, _ = train(tmp_path / "whole", END, strategy())
    losses, seconds = train(tmp_path / "save", INTERRUPTED_AT, strategy())
    saved = restore.newest_intact(tmp_path / "save")
    assert saved
    assert saved.step == INTERRUPTED_AT
    resumed, _ = train(tmp_path / "save", END, strategy())
    assert sorted(resumed) == list(range(INTERRUPTED_AT, END))
    losses |= resumed
    assert [losses[step] for step in range(END)] == pytest.approx(list(expected.values()), rel=1e-3)
    saves = [step for step in seconds if (step + 1) % SAVE_EVERY == 0]
    others = [seconds[step] for step in seconds if step and step not in saves]
    usual = statistics.median(others)
    with capsys.disabled():
        stalls = ", ".join(f"{1000 * (seconds[step] - usual):.1f}" for step in saves)
        size = 3 * LAYERS * WIDTH**2 * 4 / 1e6
        print(f"\n{name}: a step takes {1000 * usual:.1f} ms; a save of {size:.0f} MB adds")
        print(f"{stalls} ms to the step that it follows; the first save also allocates its memory")
