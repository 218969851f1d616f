"""What follows from the values of one Workload."""

from dataclasses import replace

from scheduler.snapshot.workloads import PendingWorkloads
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


def test_a_job_of_which_pods_have_ended_is_not_growing() -> None:
    """Kueue counts no quota for those."""
    finishing = admitted(size=1, parallelism=4, ended_pods=3)
    assert (finishing.granted, finishing.is_growing) == (4, False)
    raised = replace(finishing, parallelism=5)
    assert (raised.is_growing, raised.can_be_set_back) == (True, True)
    assert not finishing.can_be_set_back


def test_of_workloads_that_kueue_treats_alike_the_first_stands_for_all() -> None:
    first, same = pending("a"), pending("b")
    larger, on_hold = pending("c", pods=9), replace(pending("d"), ineligible="its queue is on hold")
    slices = [replace(pending(name), is_scale_up=True) for name in ("e", "f")]
    # who is less important may have waited for longer, and then may take more
    low = replace(pending("g"), priority=1)
    workloads = [first, larger, same, on_hold, *slices, low]
    assert PendingWorkloads(workloads).first_of_each_kind == [first, larger, on_hold, *slices, low]
