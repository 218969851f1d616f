"""The Trainer as it is, restarted in its pods at each new size."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="run make test-integrations")

from tests.harness.local_job import FOREVER, Job
from tests.harness.restarted_job import has_undisturbed_losses, resizes_and_a_kill
from tests.paths import TREE

pytestmark = pytest.mark.processes
SCRIPT = (TREE / "tests" / "frameworks" / "scripts" / "transformers_restart.py").read_text()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, SCRIPT)
    job.command = ["--restart", "--", "train.py", str(FOREVER), "0.1"]
    job.env |= {"PYTHONWARNINGS": "ignore"}
    yield job
    job.kill()


def test_resizes_repeat_no_step_and_a_kill_few_and_no_loss_changes(job: Job) -> None:
    resizes_and_a_kill(job)
    has_undisturbed_losses(job, tolerance=1e-3)
