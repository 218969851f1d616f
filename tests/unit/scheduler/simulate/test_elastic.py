"""Which jobs are taken as elastic."""

from scheduler.simulate.elastic import make_elastic
from tests.builders.simulated import job_spec

JOBS = [job_spec(f"j{number}", accelerators=1 + number % 8) for number in range(800)]


def test_the_fraction_counts_jobs_of_several_accelerators_only() -> None:
    elastic = [job for job in make_elastic(JOBS, 0.5, seed=0) if job.sizes]
    assert all(job.accelerators > 1 for job in elastic)
    assert 300 < len(elastic) < 400
    assert not any(job.sizes for job in make_elastic(JOBS, 0.0, seed=0))
    assert all(job.sizes for job in make_elastic(JOBS, 1.0, seed=0) if job.accelerators > 1)


def test_a_seed_chooses_the_same_jobs_again_and_another_seed_others() -> None:
    assert make_elastic(JOBS, 0.5, seed=1) == make_elastic(JOBS, 0.5, seed=1)
    assert make_elastic(JOBS, 0.5, seed=1) != make_elastic(JOBS, 0.5, seed=2)


def test_an_elastic_job_may_run_on_a_quarter() -> None:
    (job,) = make_elastic([job_spec(accelerators=8)], 1.0, seed=0)
    assert job.sizes == (2, 3, 4, 5, 6, 7, 8)
