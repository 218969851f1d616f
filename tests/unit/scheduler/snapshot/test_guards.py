"""Guards as they are read from the cluster."""

from dataclasses import replace

from cede.api import names
from cede.api.guards import queue_name
from cede.api.kueue import ClusterQueue, ClusterQueueSpec, ClusterQueueStatus
from cede.api.objects import Condition, Meta
from scheduler.snapshot.guards import Guard, read_guards
from tests.builders.scheduler import admitted, gpus


def queue(cohort: str = "", observed: int = 3, guarded: str = "c-1") -> ClusterQueue:
    labels = {names.GUARD: guarded} if guarded else {}
    active = Condition(names.ACTIVE, "True", observedGeneration=observed)
    return ClusterQueue(
        Meta(queue_name("c-1"), generation=3, resourceVersion="9", labels=labels),
        ClusterQueueSpec(cohortName=cohort),
        ClusterQueueStatus(conditions=(active,)),
    )


ADMITTED = admitted("c-1", queue_name("c-1"), size=4, allowed_sizes=())


def test_a_guard_without_quota() -> None:
    (guard,) = read_guards([queue()], [])
    assert guard == Guard("c-1", "9", is_observed=True)
    assert not guard.is_ended


def test_a_guard_that_keeps_capacity() -> None:
    (guard,) = read_guards([queue(names.COHORT)], [ADMITTED])
    assert guard == Guard("c-1", "9", True, True, True, gpus(4))


def test_a_guard_that_kueue_stops_has_ended_while_it_still_has_quota() -> None:
    (guard,) = read_guards([queue()], [replace(ADMITTED, active=False)])
    assert guard.is_ended


def test_a_queue_that_kueue_has_not_read() -> None:
    (guard,) = read_guards([queue(observed=2)], [ADMITTED])
    assert not guard.is_observed


def test_a_guard_in_the_cohort_without_quota_was_ended_by_kueue() -> None:
    (guard,) = read_guards([queue(names.COHORT)], [])
    assert guard.is_ended


def test_other_queues_are_no_guards() -> None:
    assert read_guards([queue(guarded="")], [ADMITTED]) == ()


def test_a_guard_that_is_being_deleted() -> None:
    made = queue(names.COHORT)
    metadata = replace(made.metadata, deletionTimestamp="2026-01-01T00:00:00Z")
    deleted = ClusterQueue(metadata, made.spec, made.status)
    (guard,) = read_guards([deleted], [ADMITTED])
    assert guard.is_deleted
