"""docs/runtime.md is true: its scripts run as they stand, its commands do what they say, its counts
are counted."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from elastic_runtime.contract import EXIT_LEFT_ON_REQUEST
from tests.harness.local_job import free_port
from tests.paths import TREE

pytestmark = pytest.mark.processes

GUIDE = (TREE / "docs" / "runtime.md").read_text()
ENV = os.environ | {"PYTHONPATH": str(TREE), "OMP_NUM_THREADS": "1"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def test_every_block_is_one_that_is_run_here() -> None:
    assert set(re.findall(r"^```(\w+)$", GUIDE, re.MULTILINE)) == {"python", "sh", "text"}
    assert GUIDE.count("```") == 2 * len(re.findall(r"^```\w+$", GUIDE, re.MULTILINE))


def test_the_scripts_run_as_they_stand_and_say_what_the_guide_says(tmp_path: Path) -> None:
    (tmp_path / "all.py").write_text("\n".join(blocks("python")))
    done = subprocess.run(
        [sys.executable, "all.py"], cwd=tmp_path, env=ENV, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    [evaluated, *told] = done.stdout.splitlines(keepends=True)
    assert evaluated.startswith("epoch 1: 0.")
    assert ["".join(told[1:])] == blocks("text")


@contextmanager
def running(command: list[str], directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, cwd=directory, env=ENV, stdout=subprocess.DEVNULL) as job:
        try:
            yield job
        finally:
            job.terminate()


def test_the_commands_do_what_they_say(tmp_path: Path) -> None:
    script = blocks("python")[0].replace("session.steps(200)", "session.steps(1_000_000)")
    (tmp_path / "train.py").write_text(script)
    [start], [status, shrink, grow, save] = (
        re.findall(r"^python -m elastic_runtime (.*?) +#", block, re.MULTILINE)
        for block in blocks("sh")
    )
    port = free_port()
    runtime = [sys.executable, "-m", "elastic_runtime", "--port", str(port)]

    def until(key: str, value: object, command: str) -> None:
        """Say `command`, then ask for the status until it has this value."""
        ask(command)
        end = time.monotonic() + 60
        while ask(status).get(key) != value:
            assert time.monotonic() < end, f"after {command!r}: {ask(status)}"
            time.sleep(0.1)

    def ask(command: str) -> dict[str, object]:
        done = subprocess.run(
            [*runtime, *command.split()], cwd=tmp_path, env=ENV, text=True, capture_output=True
        )
        found: dict[str, object] = json.loads(done.stdout or "{}")
        return found

    with running([*runtime, *start.split()], tmp_path) as job:
        until("size", 2, status)
        until("size", 1, shrink)
        until("size", 2, grow)
        saved = ask(status)["durableStep"]
        ask(save)
        end = time.monotonic() + 60
        while ask(status)["durableStep"] == saved:
            assert time.monotonic() < end
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as page:
            given = set(re.findall(r"^elastic_runtime_\w+", page.read().decode(), re.MULTILINE))
        named = set(re.findall(r"`(elastic_runtime_\w+)`", GUIDE))
        assert len(named) > 10
        assert named <= given
        job.send_signal(signal.SIGINT)
        assert job.wait(60) == EXIT_LEFT_ON_REQUEST
