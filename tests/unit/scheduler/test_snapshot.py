"""From the objects in the caches to one snapshot: what counts, and what does not."""

from collections.abc import Sequence

from cede.api.kueue import ClusterQueue, Job, Workload
from scheduler.snapshot import RawObjects, Snapshot, take
from scheduler.workloads import AdmittedWorkload
from tests.builders.kueue_objects import cluster_queue, job, local_queue, workload
from tests.builders.scheduler import KEY, cession

QUEUES = (cluster_queue("research"), cluster_queue("vision"))


def taken(
    *workloads: Workload, gpt: Job | None = None, queues: Sequence[ClusterQueue] = QUEUES
) -> Snapshot:
    return take(
        RawObjects(
            workloads=workloads,
            jobs=[gpt or job()],
            local_queues=[local_queue()],
            cluster_queues=queues,
        )
    )


def only(current: Snapshot) -> AdmittedWorkload:
    (workload,) = current.admitted
    return workload


def used(current: Snapshot) -> int:
    return current.quota.queues["research"].usage[KEY]


def test_usage_counts_the_pods_that_are_left() -> None:
    current = taken(workload("a", 3, assigned=8), gpt=job(3))
    assert only(current).size == 3
    assert used(current) == 3


def test_a_written_shrink_counts_before_kueue_follows() -> None:
    current = taken(workload("a", 8, assigned=8), gpt=job(4))
    assert only(current).size == 4
    assert used(current) == 4


def test_a_pending_slice_leaves_its_job_what_it_has() -> None:
    current = taken(workload("a", 2, assigned=2), workload("b", 8, replaces="a"))
    assert only(current).size == 2
    assert [pending.is_scale_up for pending in current.pending] == [True]


def test_two_slices_that_both_have_quota_count_once() -> None:
    current = taken(workload("a", 2, assigned=2), workload("b", 8, assigned=8, replaces="a"))
    assert only(current).size == 8
    assert used(current) == 8


def test_a_replaced_slice_that_lost_its_quota_is_not_pending() -> None:
    current = taken(workload("a", 2), workload("b", 8, assigned=8, replaces="a"))
    assert current.pending == ()


def test_a_job_stopped_after_it_grew_is_pending_like_any_other() -> None:
    current = taken(workload("a", 2, assigned=2, finished=True), workload("b", 8, replaces="a"))
    assert [pending.is_scale_up for pending in current.pending] == [False]
    assert current.admitted == ()


def test_a_finished_workload_uses_nothing() -> None:
    current = taken(workload("a", 8, assigned=8, finished=True))
    assert current.finished == {"uid-a"}
    assert used(current) == 0


def test_workloads_of_queues_outside_the_cohort_are_left_out() -> None:
    current = taken(workload("a", 8, assigned=8), queues=[cluster_queue("research", "other", {})])
    assert (current.admitted, current.pending) == ((), ())


def test_cessions_are_ordered_by_age() -> None:
    older = cession().model_copy(deep=True)
    older.metadata = type(older.metadata)(name="z", creationTimestamp="1970-01-01T00:00:01Z")
    current = take(RawObjects(cessions=[cession(), older]))
    assert [record.metadata.name for record in current.cessions] == ["z", "c-1"]
