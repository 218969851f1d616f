"""A pod that is slower than the others is named, with the times of both."""

from pathlib import Path

import pytest

from tests.harness.local_job import SCRIPT, Job
from tests.marks import LONG

pytestmark = [pytest.mark.processes, LONG]

SLOW_POD_1 = """
import os
if os.environ["JOB_COMPLETION_INDEX"] == "1":
    sys.argv[2] = "0.1"
"""


def test_a_slow_pod_is_in_the_status_and_in_the_metrics(tmp_path: Path) -> None:
    job = Job(tmp_path, SCRIPT.replace("import torch\n", f"{SLOW_POD_1}import torch\n", 1))
    try:
        job.start(0, 1)
        job.trains(2)
        job.until(lambda status: "waits for pod 1: its part of a step" in status.busy)
        # Five micro-batches of 0.02 s, and of 0.1 s. Its own part, not the wait for the other pod.
        assert 0.1 < job.metrics()["pod_own_step_seconds"] < 0.4
    finally:
        job.kill()
