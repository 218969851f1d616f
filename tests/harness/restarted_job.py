"""Jobs of a script under `--restart`, whose journal has a line for each step, in `steps.jsonl`."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.agent.rank_environment import rank_environment
from elastic_runtime.messages import Record
from tests.harness.local_job import FOREVER, Job, children, free_port
from tests.marks import LONG
from tests.paths import TREE

STEPS_PER_CHECKPOINT = 10
AT_TWO_SIZES = pytest.mark.parametrize(
    ("large", "small"),
    [pytest.param(2, 1, id="2 ranks and 1"), pytest.param(4, 2, id="4 ranks and 2", marks=LONG)],
)
FRAMEWORK_SCRIPTS = TREE / "tests" / "frameworks" / "scripts"


def steps_in(directory: Path) -> list[dict[str, Any]]:
    path = directory / "steps.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def trains_on(job: Job, world: int, beyond: int = 5, timeout_s: float = 120) -> list[int]:
    """All steps so far, once `world` ranks have committed so many more.

    Raises AssertionError after `timeout_s`.
    """
    known = len(steps_in(job.directory))
    deadline = time.monotonic() + timeout_s
    while True:
        lines = steps_in(job.directory)
        if sum(line["world"] == world for line in lines[known:]) >= beyond:
            return [line["step"] for line in lines]
        assert time.monotonic() < deadline, job.output()
        time.sleep(0.05)


def script_of(job: Job, index: int) -> int:
    """The process id of the script in this pod."""
    [worker] = children(job.pods[index].pid)
    return children(worker)[0]


def undisturbed_steps(directory: Path, env: Mapping[str, str], last: int) -> dict[int, float]:
    """The losses of a run of the script there as one process under torchrun, by step."""
    alone = directory / "alone"
    alone.mkdir()
    record = Record(1, (0,), ("a",), store=f"127.0.0.1:{free_port()}")
    subprocess.run(
        [sys.executable, "../train.py", str(last), "0"],
        cwd=alone,
        env={**env, **rank_environment(record, 0, 0, 1, "alone", 0)},
        check=True,
    )
    return {line["step"]: line["loss"] for line in steps_in(alone)}


def has_undisturbed_losses(
    directory: Path, env: Mapping[str, str], tolerance: float = 1e-4
) -> None:
    """Every step, also a repeated one, has the loss of an undisturbed run of one process."""
    lines = steps_in(directory)
    losses = undisturbed_steps(directory, env, max(line["step"] for line in lines))
    for line in lines:
        assert line["loss"] == pytest.approx(losses[line["step"]], rel=tolerance), line


def resizes_and_a_kill(job: Job, large: int, small: int) -> None:
    """From `large` ranks to `small` and back no step is lost or repeated, and after a kill few are.

    Then the job is stopped.
    """
    job.start(*range(large))
    trains_on(job, world=large, timeout_s=240)
    job.resize(small)
    job.until(lambda s: s.ceded(small) and s.parked == tuple(range(small, large)), seconds=240)
    trains_on(job, world=small, timeout_s=240)
    job.resize(large)
    steps = trains_on(job, world=large, timeout_s=240)
    assert steps == [*range(1, len(steps) + 1)]
    os.kill(script_of(job, large - 1), signal.SIGKILL)
    after_a_loss(job, world=large)
    job.stop()


def check_framework(
    directory: Path, script: str, large: int, small: int, tolerance: float = 1e-4
) -> None:
    """A script of tests/frameworks keeps its steps and losses through resizes and a kill."""
    job = Job(directory, (FRAMEWORK_SCRIPTS / script).read_text())
    job.command = ["--restart", "--", "train.py", str(FOREVER), "0.1"]
    job.env |= {"PYTHONWARNINGS": "ignore"}
    try:
        resizes_and_a_kill(job, large, small)
        has_undisturbed_losses(directory, job.env, tolerance)
    finally:
        job.kill()


def after_a_loss(job: Job, world: int) -> None:
    """It trains on, and repeats at most the steps since its newest checkpoint."""
    before = steps_in(job.directory)[-1]["step"]
    trained = trains_on(job, world=world, timeout_s=240)
    # The new run is well beyond the loss.
    while trained[-1] <= before:
        trained = trains_on(job, world=world)
    repeated = {step for step in trained if trained.count(step) > 1}
    assert len(repeated) <= STEPS_PER_CHECKPOINT
    assert {*trained} == {*range(1, max(trained) + 1)}
