"""Replicas that drift apart are in the status, with the workers concerned."""

import pytest

from tests.harness import local_job
from tests.harness.local_job import Job
from tests.marks import LONG

pytestmark = [pytest.mark.processes, LONG]
# A write that depends on the worker, as a script might make with a random draw of its own.
WRITE = """
    if session.rank == 1 and Path("drift").exists():
        Path("drift").unlink()
        model[0].bias.data[0] += 1e-6
    for batch in step"""
SCRIPT = "from pathlib import Path\n" + local_job.SCRIPT.replace("\n    for batch in step", WRITE)


def test_a_write_on_one_worker_is_seen_until_it_is_replaced(job: Job) -> None:
    job.arguments = (str(local_job.FOREVER), "0")
    job.start(0, 1, 2)
    assert job.trains(3, beyond=60).message == ""
    (job.directory / "drift").touch()
    differing = job.until(lambda s: s.message.startswith("worker 1 has other parameters"))
    assert not (job.directory / "drift").exists()
    # It receives the state of another.
    job.kill_rank(1)
    job.resumes(differing, 3)
    assert job.until(lambda s: s.message == "").size == 3
