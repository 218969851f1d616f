"""The Trainer as it is, restarted in its pods at each new size."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="run make test-integrations")

from elastic_runtime import contract
from tests.harness.local_job import FOREVER, Job
from tests.paths import TREE

pytestmark = pytest.mark.processes
SCRIPT = (TREE / "tests" / "frameworks" / "scripts" / "transformers_restart.py").read_text()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, SCRIPT)
    job.command = ["--restart", "--", "train.py", str(FOREVER), "0.1"]
    job.env |= {"PYTHONWARNINGS": "ignore"}
    yield job
    job.kill()


def steps_in(directory: Path) -> list[dict[str, Any]]:
    path = directory / "steps.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def trains_on(job: Job, world: int, beyond: int = 3) -> None:
    known = len(steps_in(job.directory))
    deadline = time.monotonic() + 180
    while sum(line["world"] == world for line in steps_in(job.directory)[known:]) < beyond:
        assert time.monotonic() < deadline, job.output()
        time.sleep(0.1)


def test_a_planned_resize_repeats_no_step_and_changes_no_loss(job: Job) -> None:
    job.env[contract.SIZES_ENV] = "1,8"
    job.start(0, 1)
    trains_on(job, world=2)
    job.resize(1)
    job.until(lambda s: s.ceded(1) and s.parked == (1,))
    trains_on(job, world=1)
    job.stop()
    lines = steps_in(job.directory)
    last = lines[-1]["step"]
    assert [line["step"] for line in lines] == [*range(1, last + 1)]
    alone = job.directory / "alone"
    alone.mkdir()
    command = [sys.executable, "../train.py", str(last), "0"]
    subprocess.run(command, cwd=alone, env=job.env, check=True)
    expected = [line["loss"] for line in steps_in(alone)]
    assert [line["loss"] for line in lines] == pytest.approx(expected, rel=1e-3)
