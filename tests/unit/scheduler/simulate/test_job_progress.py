"""What a job has done, saved and lost."""

from scheduler.simulate import job_progress
from scheduler.simulate.objects import Job
from tests.builders.simulated import ASSUMPTIONS, job_spec


def trained(seconds: float) -> Job:
    job = Job(job_spec(), 4)
    job_progress.start(job, 1000.0)
    job.training = 4
    job_progress.settle(job, 1000.0 + seconds, ASSUMPTIONS)
    return job


def test_a_stop_loses_what_was_done_since_the_last_checkpoint() -> None:
    job = trained(250)
    job_progress.lose(job, 1250.0)
    assert job.lost == 4 * 50
    assert job.done == job.saved == 4 * 200
    assert job.stops == [1250.0]


def test_a_stop_before_the_first_checkpoint_loses_all() -> None:
    job = trained(99)
    job_progress.lose(job, 1099.0)
    assert (job.done, job.lost) == (0, 4 * 99)


def test_a_job_that_saved_loses_nothing() -> None:
    job = trained(250)
    job_progress.save(job, 1250.0)
    job_progress.lose(job, 1250.0)
    assert (job.done, job.lost) == (1000, 0)
