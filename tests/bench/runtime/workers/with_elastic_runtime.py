"""Our training script as a user writes it, with `BENCH_MICRO_BATCHES` (4) a step."""

import os

from elastic_runtime import Session
from tests.bench.runtime.workers import job

MICRO_BATCHES = int(os.environ.get("BENCH_MICRO_BATCHES", "4"))

net = job.model()
session = Session(
    net,
    job.optimizer_of(net),
    samples=100_000,
    micro_batches=MICRO_BATCHES,
    micro_batch_size=job.BATCH,
    journal=job.FOLDER / "log",
)
for step in session.steps(1_000_000):
    for batch in step:
        step.backward(job.loss_of(net, job.batch(step.number, batch.number)))
