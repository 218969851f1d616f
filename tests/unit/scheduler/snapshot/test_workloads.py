"""What follows from the values of one Workload."""

from tests.builders.scheduler import admitted, gpus, pending


def test_a_job_grows_while_it_has_more_pods_than_quota() -> None:
    assert admitted(size=2, parallelism=4).is_growing
    assert not admitted(size=2).is_growing
    assert not admitted(size=2, parallelism=4, allowed_sizes=()).is_growing


def test_quota_for_a_number_of_pods() -> None:
    assert admitted().quota_for(3) == gpus(3)


def test_a_workload_that_nothing_owns_is_known_by_its_own_uid() -> None:
    assert pending("a", job_uid="").identity == "uid-a"
    assert admitted("a", job_uid="job-uid-a").identity == "job-uid-a"
