"""The Python blocks of the documentation run, its commands work, its metrics exist."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from elastic_runtime import contract
from tests.harness.local_job import free_port
from tests.marks import LONG
from tests.paths import TREE
from tests.unit.docs.pages import blocks_of

pytestmark = pytest.mark.processes

PAGES = ("docs/porting.md", "docs/runtime-reference.md", "README.md")
REFERENCE = (TREE / "docs" / "runtime-reference.md").read_text()
ENV = os.environ | {"PYTHONPATH": str(TREE), "OMP_NUM_THREADS": "1"}
TIMEOUT_S = 60.0


def test_all_python_blocks_run_in_one_process_and_print_what_the_page_shows(
    tmp_path: Path,
) -> None:
    """One after the other, because importing torch takes long."""
    python = [block.text for page in PAGES for block in blocks_of(page, "python")]
    (tmp_path / "all.py").write_text("\n".join(python))
    result = subprocess.run(
        [sys.executable, "all.py"], cwd=tmp_path, env=ENV, text=True, capture_output=True
    )
    assert result.returncode == 0, result.stderr
    first, second, third, fourth, *mistakes = result.stdout.splitlines(keepends=True)
    assert first.startswith("epoch 1: 0.")
    assert second.startswith("epoch 2: 0.")
    assert third.startswith("step 10: loss ")
    assert fourth.startswith("step 20: loss ")
    [shown] = blocks_of("docs/runtime-reference.md", "text")
    assert "".join(mistakes) == shown.text


@contextmanager
def running(command: list[str], directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, cwd=directory, env=ENV, stdout=subprocess.DEVNULL) as job:
        try:
            yield job
        finally:
            job.terminate()


def wait_until(condition: Callable[[], bool], purpose: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, purpose
        time.sleep(0.1)


@LONG
def test_the_commands_of_the_porting_page_work(tmp_path: Path) -> None:
    script = blocks_of("docs/porting.md", "python")[0].text
    (tmp_path / "train.py").write_text(script.replace("steps(200)", "steps(1_000_000)"))
    [start], [status, shrink, grow, save] = (
        re.findall(r"^python -m elastic_runtime (.*?) +#", block.text, re.MULTILINE)
        for block in blocks_of("docs/porting.md", "sh")[:2]
    )
    port = free_port()
    runtime = [sys.executable, "-m", "elastic_runtime", "--port", str(port)]

    def request(command: str) -> dict[str, object]:
        result = subprocess.run(
            [*runtime, *command.split(), "-o", "json"],
            cwd=tmp_path,
            env=ENV,
            text=True,
            capture_output=True,
        )
        reply: dict[str, object] = json.loads(result.stdout or "{}")
        return reply

    def resize(command: str, size: int) -> None:
        request(command)
        wait_until(lambda: request(status).get("size") == size, command)

    with running([*runtime, *start.split()], tmp_path) as job:
        resize(status, 2)
        resize(shrink, 1)
        resize(grow, 2)
        durable_step = request(status)["durableStep"]
        request(save)
        wait_until(lambda: request(status)["durableStep"] != durable_step, save)
        check_metrics(port)
        job.send_signal(signal.SIGINT)
        assert job.wait(TIMEOUT_S) == contract.EXIT_LEFT_ON_REQUEST


def check_metrics(port: int) -> None:
    """Every metric of the reference exists."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as page:
        existing = set(re.findall(r"^elastic_runtime_\w+", page.read().decode(), re.MULTILINE))
    documented = set(re.findall(r"^\| `(elastic_runtime_\w+)`", REFERENCE, re.MULTILINE))
    assert len(documented) > 10
    assert documented <= existing
