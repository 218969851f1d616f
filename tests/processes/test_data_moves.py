"""Real processes: what arrives from loader workers and from streams is the same, in the same order,
whatever happens to the job."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from elastic_runtime.contract import State
from tests.harness.local_job import Job, check_exactly_once, undisturbed_losses

pytestmark = pytest.mark.processes

SCRIPT = """
import json, os, sys, time, torch
from elastic_runtime import Session
torch.set_num_threads(1)
torch.manual_seed(0)
points = torch.randn(97, 64)  # (samples, width)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
session = Session(model, optimizer, micro_batches=6, micro_batch_size=3, checkpoint="save", journal="log")

class Points(torch.utils.data.Dataset):
    def __len__(self):
        return 97
    def __getitem__(self, index):
        return index, points[index] + torch.randn(64)

class Stream:
    def __init__(self, number, count, epoch):
        self.order = torch.randperm(97, generator=torch.Generator().manual_seed(epoch))[number::count].tolist()
        self.at = 0
    def __iter__(self):
        while self.at < len(self.order):
            self.at += 1
            index = self.order[self.at - 1]
            yield index, points[index] + torch.randn(64)
    def state_dict(self):
        return {"at": self.at}
    def load_state_dict(self, state):
        self.at = state["at"]

data = SOURCE
seen = None
for step in session.steps(int(sys.argv[1])):
    seen = seen or open(f"log/seen-{os.getpid()}.jsonl", "a", buffering=1)
    mine = []
    for indices, inputs in data.batches(step):
        time.sleep(float(sys.argv[2]))  # a step that takes its time
        mine += indices.tolist()
        step.backward(model(inputs).square().mean())
    seen.write(json.dumps({"step": step.number + 1, "rank": session.rank, "generation": session.generation, "seen": mine}) + "\\n")
"""
SOURCES = {
    "loader": "session.loader(Points(), num_workers=2)",
    "streams": "session.streams(Stream)",
}


def arrived(job: Job) -> list[list[int]]:
    """By committed step, the samples that the script was given, in the order of micro-batches."""
    committed = {line["step"]: line["generation"] for line in job.lines("steps-*")}
    found: dict[int, list[tuple[int, list[int]]]] = {}
    for line in job.lines("seen-*"):
        if committed.get(line["step"]) == line["generation"]:
            found.setdefault(line["step"], []).append((line["rank"], line["seen"]))
    return [
        [sample for _, part in sorted(found[step]) for sample in part]
        for step in range(1, max(committed) + 1)
    ]


@pytest.mark.parametrize("source", SOURCES)
def test_what_arrives_is_what_an_undisturbed_job_is_given(tmp_path: Path, source: str) -> None:
    script = SCRIPT.replace("SOURCE", SOURCES[source])
    plain = tmp_path / "plain"
    plain.mkdir()
    undisturbed: Callable[[int], list[float]] = partial(
        undisturbed_losses, plain, script, [], least=0
    )
    job = Job(tmp_path, script)
    try:
        job.start(0, 1, 2)
        job.trains(3)
        job.resize(1)
        shrunk = job.trains(1)
        job.resize(3)
        job.trains(3)
        job.kill_rank(1)
        job.until(lambda s: s.generation > shrunk.generation + 1 and s.state == State.TRAINING)
        last = job.trains(3)
        # a save of everything, and all leave
        assert job.stop()
        job.start(0)
        job.until(lambda s: s.step > last.step + 3 and s.size == 1)
        job.stop()
    finally:
        job.kill()
    steps = check_exactly_once(job, undisturbed, micro_batches=6)
    expected = Job(plain, script)
    assert arrived(job) == arrived(expected)[:steps]
