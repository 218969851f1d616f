"""A job of one where the system has less than Linux, such as macOS."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from elastic_runtime.checkpointing import restore
from tests.harness.local_job import SCRIPT
from tests.paths import TREE

pytestmark = pytest.mark.processes

# What macOS lacks of what this package uses. torch has been imported: it has its own build there.
PREAMBLE = """
import mmap, os, signal, torch
del os.O_DIRECT, os.memfd_create, mmap.MADV_HUGEPAGE, signal.SIGRTMIN
"""


def test_a_job_of_one_saves_and_continues(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PREAMBLE + SCRIPT)
    env = os.environ | {"PYTHONPATH": str(TREE), "OMP_NUM_THREADS": "1"}
    for steps in ("3", "5"):
        command = [sys.executable, "train.py", steps, "0"]
        subprocess.run(command, cwd=tmp_path, env=env, check=True, timeout=60)
        saved = restore.newest_intact(tmp_path / "save")
        assert saved
        assert saved.step == int(steps)
