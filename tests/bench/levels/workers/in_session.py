"""The training in a Session: `in_session.py DIRECTORY`."""

import sys

from elastic_runtime import Session
from tests.bench.levels.workers import tiny

if __name__ == "__main__":
    net = tiny.model()
    session = Session(
        net,
        tiny.optimizer_of(net),
        samples=100_000,
        micro_batches=tiny.MICRO_BATCHES,
        micro_batch_size=4,
        checkpoint=f"{sys.argv[1]}/save",
        save_every=tiny.SAVE_EVERY,
        journal=sys.argv[1],
    )
    for step in session.steps(1_000_000):
        for _ in step:
            step.backward(tiny.loss_of(net))
