"""A worker that cannot read the newest checkpoint, while others can, ends the job with one error.

The job does not go back to an older checkpoint.
"""

from collections.abc import Callable

import pytest

from elastic_runtime import contract
from tests.harness.local_job import SCRIPTS, Job, check_exactly_once
from tests.marks import LONG

pytestmark = [pytest.mark.processes, LONG]
# In the pod that has a file `failing-INDEX`, every read of a part of a checkpoint fails.
SCRIPT = f"""
import errno, os
from pathlib import Path

preadv = os.preadv

def failing_preadv(*arguments):
    if Path("failing-" + os.environ.get("{contract.INDEX_ENV}", "")).exists():
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    return preadv(*arguments)

os.preadv = failing_preadv
""" + (SCRIPTS / "sharded.py").read_text()
# What the losses are compared with: one process, replicated.
UNDISTURBED = SCRIPT.replace('os.environ["STRATEGY"]', '"replicated"')


@pytest.mark.parametrize(
    ("job", "failing"),
    [("replicated", 0), pytest.param("fsdp", 1, marks=LONG)],
    indirect=["job"],
    ids=str,
)
def test_a_job_goes_on_from_its_newest_checkpoint_once_all_workers_can_read_it(
    job: Job, failing: int, undisturbed: Callable[[int], list[float]]
) -> None:
    """Of the replicated model, worker 0 reads a checkpoint for all.

    The job may not run with one pod: after an error, the pod that can read might start alone.
    """
    job.env[contract.SIZES_ENV] = "2,8"
    job.start(0, 1)
    job.trains(2)
    job.stop()
    last = check_exactly_once(job, undisturbed)
    newest = sorted(path.name for path in (job.directory / "save").glob("step-*"))[-1]
    (job.directory / f"failing-{failing}").touch()
    job.start(0, 1)
    assert 0 not in [pod.wait(120) for pod in job.pods.values()]
    assert f"worker {failing} on " in job.output()
    assert f"cannot read a file that worker {1 - failing} can read: " in job.output()
    assert f"{newest}/__" in job.output()
    assert (job.directory / "save" / newest).is_dir()
    (job.directory / f"failing-{failing}").unlink()
    job.start(0, 1)
    assert job.trains(2).step > last
    job.stop()
    # No step was done again.
    assert check_exactly_once(job, undisturbed) > last
