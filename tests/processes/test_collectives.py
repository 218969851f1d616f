"""Collectives of the script's own: the losses are those of an undisturbed run."""

from collections.abc import Callable

import pytest

from elastic_runtime import contract
from tests.harness.local_job import LOST, SCRIPTS, Job, check_exactly_once

pytestmark = pytest.mark.processes
# A rank is lost, or hangs, on request, in a collective: before it sends its rows or when it has all.
FAULTS = """
import signal
import time
from elastic_runtime.training import collectives

def all_gather_rows(group, tensor):
    place = f"{tensor.dim()}-{group.rank}"
    lost(f"enter-{place}")
    if Path(f"freeze-{place}").exists():
        Path(f"freeze-{place}").unlink()
        os.kill(os.getpid(), signal.SIGSTOP)
    rows = gather(group, tensor)
    lost(f"leave-{place}")
    return rows

gather, collectives.all_gather_rows = collectives.all_gather_rows, all_gather_rows
"""
SCRIPT = LOST + FAULTS + (SCRIPTS / "contrastive.py").read_text()
# What the losses are compared with: one process.
UNDISTURBED = SCRIPT.replace('os.environ["STRATEGY"]', '"replicated"')
# The rows of codes have two dimensions, those behind the loop one.
BEFORE = "2"
BEHIND = "1"


@pytest.mark.parametrize("job", ["replicated", "deterministic", "hsdp"], indirect=True)
def test_a_lost_worker_and_resizes_change_no_loss(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    """Also with workers that have different numbers of micro-batches."""
    job.start(0, 1, 2, 3)
    status = job.trains(4)
    for place in (f"enter-{BEFORE}-1", f"leave-{BEFORE}-3", f"enter-{BEHIND}-2"):
        (job.directory / place).touch()
        status = job.resumes(status, 4)
        assert not (job.directory / place).exists(), "the rank was not lost"
    for size in (3, 1, 4):
        job.resize(size)
        job.trains(size)
    job.stop()
    check_exactly_once(job, undisturbed)
