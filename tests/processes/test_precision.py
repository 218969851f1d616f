"""Compiled, in mixed precision: a job that changes size trains as if it did not."""

from functools import partial
from pathlib import Path

import pytest

from tests.harness.local_job import SCRIPTS, Job, check_exactly_once, undisturbed_losses
from tests.marks import LONG

pytestmark = [pytest.mark.processes, LONG]
SCRIPT = (SCRIPTS / "compiled.py").read_text()


def test_a_compiled_bfloat16_job_takes_the_same_steps_at_every_size(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its sums are in one order (Deterministic): a different bit could be rounded to another
    bfloat16, which would show in the loss."""
    job = Job(tmp_path, SCRIPT)
    try:
        job.start(0, 1, 2)
        job.trains(3)
        for size in (1, 2):
            job.resize(size)
            job.trains(size)
        job.stop()
    finally:
        job.kill()
    check_exactly_once(
        job, partial(undisturbed_losses, tmp_path_factory.mktemp("undisturbed"), SCRIPT, [])
    )
