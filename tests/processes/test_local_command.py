"""A local job and the command that started it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness.local_job import children, free_port
from tests.paths import TREE

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("is_up", [True, False], ids=["pods run", "pods start"])
def test_a_local_job_ends_when_the_process_that_started_it_was_killed(
    tmp_path: Path, *, is_up: bool
) -> None:
    (tmp_path / "wait.py").write_text("import time; time.sleep(600)")
    command = [sys.executable, "-m", "elastic_runtime", "--port", str(free_port()), "--local", "2"]
    with subprocess.Popen(
        [*command, "wait.py"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(TREE)}
    ) as local_job:
        pids = tmp_path / ".elastic_runtime" / "pids"
        _until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        if is_up:
            _until(lambda: all(children(int(pid)) for pid in pids.read_text().split()))
        local_job.kill()
    _until(lambda: not _running_in(tmp_path))


def test_a_local_job_that_finishes_without_a_killed_agent_has_succeeded(tmp_path: Path) -> None:
    """As long as a script needs no torch, each pod runs it alone."""
    (tmp_path / "wait.py").write_text(
        "import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)"
    )
    command = [sys.executable, "-m", "elastic_runtime", "--port", str(free_port()), "--local", "3"]
    with subprocess.Popen(
        [*command, "wait.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(TREE)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        pids = tmp_path / ".elastic_runtime" / "pids"
        _until(lambda: pids.exists() and len(pids.read_text().split()) == 3)
        agents = [int(pid) for pid in pids.read_text().split()]
        _until(lambda: all(map(children, agents)))
        os.kill(agents[0], signal.SIGKILL)
        (tmp_path / "go").touch()
        _, error = job.communicate(timeout=60)
    assert job.returncode == 0, error


def _running_in(directory: Path) -> list[str]:
    """Agents and workers alike."""
    processes = list[str]()
    for process in Path("/proc").glob("[0-9]*"):
        # It has ended, or is another user's.
        with suppress(OSError):
            if (process / "cwd").readlink() == directory:
                processes.append(process.name)
    return processes


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
