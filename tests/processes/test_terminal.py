"""A local job whose stderr is a terminal shows people a line, and programs nothing to parse."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness.local_job import SCRIPT, free_port
from tests.paths import TREE

pytestmark = pytest.mark.processes


def written_to(terminal: int) -> str:
    """All that was written, when the other side has closed it."""
    chunks = list[bytes]()
    # Linux reports the end of a terminal as an error.
    with suppress(OSError):
        while data := os.read(terminal, 1 << 16):
            chunks.append(data)
    return b"".join(chunks).decode()


def test_a_job_on_a_terminal_shows_one_live_line_and_keeps_its_log(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT + "print('printed')\n")
    terminal, other_side = pty.openpty()
    command = [sys.executable, "-m", "elastic_runtime", "--port", str(free_port()), "--local", "1"]
    with subprocess.Popen(
        [*command, "train.py", "200", "0.001"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(TREE), "OMP_NUM_THREADS": "1"},
        stdout=other_side,
        stderr=other_side,
    ) as job:
        os.close(other_side)
        text = written_to(terminal)
    os.close(terminal)
    assert job.returncode == 0, text
    assert re.search(r"\x1b\[Kstep \d+  loss [\d.]+  1 pod  .*samples/s  training", text), text
    assert "printed\r\n" in text
    assert '"level"' not in text
    assert "the job has finished; its log is in .elastic_runtime/log.jsonl" in text
    log = (tmp_path / ".elastic_runtime" / "log.jsonl").read_text()
    assert '"message": "new generation"' in log
