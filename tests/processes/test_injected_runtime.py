"""The copy that an init container makes works with each Python that an image may have."""

import os
import subprocess
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.agent.injection import copy_runtime
from tests.harness.local_job import free_port
from tests.harness.pythons import find_python
from tests.marks import in_long

pytestmark = pytest.mark.processes


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with the runtime that nobody but root may write to."""
    folder = tmp_path / "cede"
    folder.mkdir()
    assert copy_runtime(folder, contract.VERSION) == ""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    return folder


def run(version: str, copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`python -m elastic_runtime` below this Python, which has no other runtime."""
    python = find_python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    return subprocess.run(
        [python, "-m", "elastic_runtime", *words],
        cwd=copy.parent,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("version", ["3.11", *in_long("3.12", "3.13", "3.14")])
def test_a_job_runs_from_the_copy(copy: Path, version: str) -> None:
    """A command, because not each of these Pythons has torch."""
    options = ["--port", str(free_port()), "--local", "2", "--signal", "TERM"]
    result = run(version, copy, *options, "--", "sh", "-c", "echo it runs")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("it runs") == 2


@pytest.mark.parametrize("version", ["3.10", *in_long("3.6", "3.7", "3.8", "3.9")])
def test_an_older_python_is_named_in_one_line(copy: Path, version: str) -> None:
    result = run(version, copy, "train.py")
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"elastic_runtime: this is Python {version}.")
    assert "Python 3.11 to 3.14 is needed: use an image that has it" in line
