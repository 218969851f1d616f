"""What waits is read queue by queue, in Kueue's order, and kept while nothing of it changes."""

from collections.abc import Sequence
from dataclasses import replace

from cede.api.kueue import ClusterQueue, ClusterQueueStatus, Workload
from scheduler.snapshot.pending_queues import Line, PendingQueues
from scheduler.snapshot.workloads import PendingWorkload
from tests.builders.kueue_objects import cluster_queue, local_queue, workload

LOCAL_QUEUE = local_queue()
QUEUE = cluster_queue("research")


def read(
    queues: PendingQueues, workloads: Sequence[Workload], queue: ClusterQueue = QUEUE
) -> tuple[PendingWorkload, ...]:
    line = Line(LOCAL_QUEUE, queue, [(waiting, None) for waiting in workloads])
    pending = queues.read([line], [])
    queues.end_pass()
    return pending


def test_the_order_is_that_of_kueue() -> None:
    first, urgent = workload("a", 1), workload("z", 1)
    urgent = replace(urgent, spec=replace(urgent.spec, priority=90))
    pending = read(PendingQueues(), [first, workload("b", 1), urgent])
    assert [waiting.uid for waiting in pending] == ["uid-z", "uid-a", "uid-b"]


def test_what_did_not_change_stays_the_same_object() -> None:
    queues = PendingQueues()
    workloads = [workload("a", 1), workload("b", 1)]
    before = read(queues, workloads)
    assert read(queues, workloads) is before
    # other versions that read the same, and another order in the cache
    assert read(queues, [workload("b", 1), workload("a", 1)]) is before


def test_new_counts_of_a_queue_change_nothing() -> None:
    queues = PendingQueues()
    workloads = [workload("a", 1)]
    before = read(queues, workloads)
    metadata = replace(QUEUE.metadata, resourceVersion="99")
    counted = replace(QUEUE, metadata=metadata, status=ClusterQueueStatus(pendingWorkloads=7))
    assert read(queues, workloads, counted) is before


def test_a_queue_on_hold_makes_what_waits_in_it_ineligible() -> None:
    queues = PendingQueues()
    workloads = [workload("a", 1)]
    assert not read(queues, workloads)[0].ineligible
    on_hold = replace(QUEUE, spec=replace(QUEUE.spec, stopPolicy="Hold"))
    assert read(queues, workloads, on_hold)[0].ineligible


def test_a_workload_that_changes_is_read_again_and_the_others_stay() -> None:
    queues = PendingQueues()
    other = workload("a", 1)
    before = read(queues, [other, workload("b", 1)])
    after = read(queues, [other, workload("b", 2)])
    assert after[0] is before[0]
    assert [pods.count for pods in after[1].pod_sets] == [2]


def test_who_left_is_forgotten() -> None:
    queues = PendingQueues()
    read(queues, [workload("a", 1)])
    assert read(queues, []) == ()
