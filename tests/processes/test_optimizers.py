"""Several optimizers: moved at growth, restored by a rank that was lost, saved and loaded."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.harness.local_job import SCRIPTS, Job, check_exactly_once, undisturbed_losses

pytestmark = pytest.mark.processes
SCRIPT = (SCRIPTS / "optimizers.py").read_text()


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    job = Job(tmp_path, SCRIPT)
    job.env["STRATEGY"] = request.param
    yield job
    job.kill()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[float]]:
    """The losses of the first steps of the same script, replicated, in one process."""
    script = SCRIPT.replace('os.environ["STRATEGY"]', '"replicated"')
    return partial(undisturbed_losses, tmp_path_factory.mktemp("undisturbed"), script, [])


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


@pytest.mark.parametrize("job", ["fsdp"], indirect=True)
def test_two_optimizers_are_loaded_at_another_size_by_another_strategy(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    job.trains(2)
    job.stop()
    sharded_steps = check_exactly_once(job, undisturbed)
    job.env["STRATEGY"] = "replicated"
    job.start(0, 1, 2)
    assert job.trains(3).step > sharded_steps
    job.stop()
    replicated_steps = check_exactly_once(job, undisturbed)
    job.env["STRATEGY"] = "fsdp"
    job.start(0)
    assert job.trains(1).step > replicated_steps
    job.stop()
    check_exactly_once(job, undisturbed)
