"""The journal of a script under `--restart`: a line for each step, in `steps.jsonl`."""

import json
import time
from pathlib import Path
from typing import Any

from tests.harness.local_job import Job


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
