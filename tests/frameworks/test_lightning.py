"""`fit` trains a LightningModule as an elastic job, and refuses what it would not do.

`make test-integrations` runs this, in an environment that has their packages.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from elastic_runtime.checkpointing import best_mark
from tests.harness.local_job import Job
from tests.paths import TREE

SCRIPT = (TREE / "tests" / "frameworks" / "scripts" / "lightning_metrics.py").read_text()
# Three validations without improvement after the first one, and the step in which it stops.
LAST_STEP = 4 * 4 + 1
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not find_spec("lightning"), reason="run make test-integrations"),
]


def validations(directory: Path) -> dict[int, dict[str, float]]:
    """What was validated, by step; workers that differ fail."""
    by_step = dict[int, dict[str, float]]()
    for path in directory.glob("metrics-*.jsonl"):
        for line in map(json.loads, path.read_text().splitlines()):
            values = by_step.setdefault(line["step"], line["values"])
            assert line["values"] == values
    return by_step


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """The script without an agent."""
    job = Job(tmp_path_factory.mktemp("alone"), SCRIPT)
    command = [sys.executable, "-W", "ignore", "train.py", "1000", "0"]
    subprocess.run(command, cwd=job.directory, env=job.env, check=True)
    return job


def test_it_stops_early_as_callbacks_say(alone: Job) -> None:
    assert max(line["step"] for line in alone.lines("steps-*")) == LAST_STEP
    assert sorted(validations(alone.directory)) == [4, 8, 12, 16]


def test_metrics_are_of_all_validation_samples(alone: Job) -> None:
    values = validations(alone.directory)[16]
    assert values["samples/dataloader_idx_0"] == 41
    assert values["samples/dataloader_idx_1"] == 96
    losses = values["loss/dataloader_idx_0"], values["loss/dataloader_idx_1"]
    assert values["error"] == pytest.approx((41 * losses[0] + 96 * losses[1]) / 137)
    assert values["MeanSquaredError"] == pytest.approx(values["error"])
    assert values["MeanAbsoluteError"] > 0


def test_workers_validate_together_what_each_would_alone(alone: Job, tmp_path: Path) -> None:
    """Also while they are resized, and when one is lost."""
    job = Job(tmp_path, SCRIPT, 1000, arguments=("1000", "0.1"))
    try:
        job.start(0, 1)
        job.until(lambda s: s.size == 2 and s.step >= 2)
        job.resize(1)
        job.until(lambda s: s.size == 1 and s.step >= 5)
        job.resize(2)
        job.until(lambda s: s.size == 2 and s.step >= 9)
        job.kill_rank(1)
        assert [pod.wait(120) for pod in job.pods.values()] == [0, 0], job.output()
    finally:
        job.kill()
    losses = {line["step"]: line["loss"] for line in job.lines("steps-*")}
    assert losses == pytest.approx({line["step"]: line["loss"] for line in alone.lines("steps-*")})
    here, there = validations(tmp_path), validations(alone.directory)
    assert here.keys() == there.keys()
    for step, values in there.items():
        assert here[step] == pytest.approx(values, rel=1e-9)
    marks = [best_mark.read(directory / "save") for directory in (tmp_path, alone.directory)]
    assert marks[0]
    assert marks[1]
    assert marks[0].step == marks[1].step
