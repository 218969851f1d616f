"""A local job and the command that started it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.local_job import children, free_port
from tests.paths import TREE

pytestmark = pytest.mark.processes


def test_a_local_job_ends_when_the_process_that_started_it_was_killed(tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text("import time; time.sleep(600)")
    command = [sys.executable, "-m", "elastic_runtime", "--port", str(free_port()), "--local", "2"]
    with subprocess.Popen(
        [*command, "wait.py"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(TREE)}
    ) as local_job:
        pids = tmp_path / ".elastic_runtime" / "pids"
        _until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        pods = [Path(f"/proc/{pid}") for pid in pids.read_text().split()]
        # Not before each of them knows who started it.
        _until(lambda: all(children(int(pod.name)) for pod in pods))
        local_job.kill()
    _until(lambda: not any(pod.exists() for pod in pods))


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
