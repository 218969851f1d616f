"""A script that ends its job early while the size changes."""

from pathlib import Path

import pytest

from elastic_runtime.checkpointing import restore
from tests.harness.local_job import SCRIPT, Job
from tests.marks import in_long

pytestmark = pytest.mark.processes

# In step 8 worker 0 waits until the next generation is ordered, then stops the job: the votes of
# that step carry both.
STOP = """
    if step.number == 8 and session.rank == 0:
        link = session._parts.lifecycle.link
        while link.record.generation == session.generation or not link.record.store:
            time.sleep(0.01)
        session.stop()
"""


@pytest.mark.parametrize("size", [1, *in_long(3)])
def test_a_job_that_is_stopped_in_the_step_before_a_resize_ends_with_it(
    tmp_path: Path, size: int
) -> None:
    body = "    for batch in step:\n"
    job = Job(tmp_path, SCRIPT.replace(body, STOP + body))
    job.start(0, 1)
    try:
        job.trains(2, beyond=0)
        job.until(lambda s: s.step == 8)
        if size > 2:
            job.start(2)
        else:
            job.resize(1)
        assert [pod.wait(120) for pod in job.pods.values()] == [0] * len(job.pods), job.output()
    finally:
        job.kill()
    newest = restore.newest_intact(tmp_path / "save")
    assert newest
    assert newest.step == 9
    assert max(line["step"] for line in job.lines("steps-*")) == 9
