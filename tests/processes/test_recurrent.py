"""Hidden states that go on in the next step, as the porting guide keeps them."""

from collections.abc import Callable

import pytest

from tests.harness.local_job import SCRIPTS, Job, check_exactly_once
from tests.marks import LONG
from tests.unit.docs.pages import blocks_of

pytestmark = [pytest.mark.processes, LONG]
[GUIDE] = [
    block.text for block in blocks_of("docs/porting.md", "python") if "class Memory" in block.text
]
MEMORY = GUIDE[: GUIDE.index("sequences = ")]
SCRIPT = f"import torch\n\n{MEMORY}{(SCRIPTS / 'recurrent.py').read_text()}"


def test_a_lost_worker_resizes_and_a_restart_change_no_loss(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2)
    status = job.trains(3)
    (job.directory / "lost-1").touch()
    job.resumes(status, 3)
    assert not (job.directory / "lost-1").exists(), "the rank was not lost"
    job.resize(2)
    job.trains(2)
    job.stop()
    job.start(0, 1)
    job.trains(2)
    job.stop()
    check_exactly_once(job, undisturbed)
