"""Several optimizers: moved at growth, restored by a rank that was lost, saved and loaded."""

from collections.abc import Callable

import pytest

from tests.harness.local_job import SCRIPTS, Job, check_exactly_once, moves_between_strategies
from tests.marks import LONG

pytestmark = pytest.mark.processes
SCRIPT = (SCRIPTS / "optimizers.py").read_text()
# What the losses are compared with: one process, replicated.
UNDISTURBED = SCRIPT.replace('os.environ["STRATEGY"]', '"replicated"')


@LONG
@pytest.mark.parametrize("job", ["replicated", "hsdp"], indirect=True)
def test_two_optimizers_go_through_growth_a_lost_rank_and_a_shrink(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    job.trains(2)
    job.start(2, 3)
    before = job.trains(4)
    job.kill_rank(2)
    job.resumes(before, 4)
    job.resize(1)
    job.until(lambda s: s.ceded(1))
    job.trains(1)
    job.stop()
    check_exactly_once(job, undisturbed)


@LONG
@pytest.mark.parametrize("job", ["fsdp"], indirect=True)
def test_two_optimizers_are_loaded_at_another_size_by_another_strategy(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    moves_between_strategies(job, undisturbed)
