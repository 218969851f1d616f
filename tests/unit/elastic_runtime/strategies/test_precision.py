"""Compiled, in mixed precision, with a schedule: a job that changes size trains as if it had
not."""

from functools import partial
from pathlib import Path

import pytest

from tests.harness.local_job import Job, check_exactly_once, undisturbed_losses

SCRIPT = """
import sys, time, warnings
warnings.filterwarnings("ignore")
import torch
from elastic_runtime import Deterministic, Session
torch.set_num_threads(1)
torch.manual_seed(0)
data, noise = torch.randn(97, 64), torch.randn(97, 8)  # (samples, width)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
compiled = torch.compile(model, backend="eager")
session = Session(
    model, optimizer, samples=97, micro_batches=10, micro_batch_size=3, lr_schedulers=[schedule], strategy=Deterministic(), journal="log"
)
for step in session.steps(int(sys.argv[1])):
    for batch in step:
        time.sleep(float(sys.argv[2]))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = (compiled(data[batch.indices]) - noise[batch.indices]).float().square().mean()
        step.backward(loss)
    step.clip(1.0)
"""


@pytest.mark.processes
def test_a_compiled_job_in_bfloat16_takes_the_same_steps_at_every_size(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its sums are in one order (Deterministic): a bit that differed would be a bfloat16 that rounds the
    other way, and be seen in the loss."""
    job = Job(tmp_path, SCRIPT)
    try:
        job.start(0, 1, 2)
        job.trains(3)
        for size in (1, 2):
            job.resize(size)
            job.trains(size)
        job.stop()
    finally:
        job.kill()
    check_exactly_once(
        job, partial(undisturbed_losses, tmp_path_factory.mktemp("undisturbed"), SCRIPT, [])
    )
