"""PURE. Released capacity is kept for the preemptor of a Cession until Kueue admits it.

Kueue keeps capacity for the first Workload of a StrictFIFO queue, in every scheduling cycle, if the
queue does not exceed its nominal quota with it (Kueue: pkg/scheduler/scheduler.go,
reserveCapacityForUnreclaimablePreempt). So the queue is set to StrictFIFO, and Workloads that wait
before the preemptor without a chance are set inactive for the while.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cede.api.cession import Cession
from scheduler.actions import Action, SetQueueingStrategy, SetWorkloadActive
from scheduler.cession.stage_times import led_s, once
from scheduler.quota.assignments import assignments
from scheduler.quota.cohort import BEST_EFFORT_FIFO, STRICT_FIFO, CohortQuota
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import PendingWorkload

WAKE_S = 1.2
"""A queue that becomes StrictFIFO does not wake its Workloads. Kueue does so up to 1 s later, and
until then it keeps nothing for anybody (Kueue: pkg/cache/queue/inadmissible_workloads.go)."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """How far capacity is kept for the preemptor of one Cession."""

    # every action can be repeated without harm
    actions: tuple[Action, ...] = ()
    # True if targets may release their capacity now
    may_release: bool = False
    # RFC 3339: since when Kueue keeps capacity for the preemptor; empty if it does not
    since: str = ""


def prepare(cession: Cession, snapshot: Snapshot, now: float) -> Reservation:
    """The reservation for a preemptor that is pending. `restore` ends it.

    The wait for Kueue begins once; Workloads that come before the preemptor later are set aside
    with the release, and do not put it off.
    """
    queue = snapshot.quota.queues[cession.spec.preemptor.queue]
    why = f"it waits before {cession.spec.preemptor.workload} and does not fit its team's own quota"
    parks = tuple(
        SetWorkloadActive(workload.key, workload.uid, False, why, cession.metadata.name)
        for workload in hopeless_heads(cession, snapshot)
    )
    if queue.strategy != STRICT_FIFO:
        strict = SetQueueingStrategy(queue.name, STRICT_FIFO, queue.version)
        return Reservation((strict, *parks))
    if not cession.status.reservedTime and not queue.is_observed:
        return Reservation(parks)
    since = once(cession.status.reservedTime, now)
    may_release = led_s(since, snapshot.led_since, now) >= WAKE_S
    return Reservation(parks, may_release, since)


def hopeless_heads(cession: Cession, snapshot: Snapshot) -> Iterator[PendingWorkload]:
    """The Workloads that Kueue would try before the preemptor, and that do not fit into the rest of
    their team's own quota.

    Kueue keeps nothing for them, and under StrictFIFO tries no other Workload of the queue. A
    Workload within its team's own quota is left alone: it goes first by right.
    """
    queue = cession.spec.preemptor.queue
    for workload in snapshot.pending:
        if workload.uid == cession.spec.preemptor.uid:
            return
        is_tried = workload.active and not workload.ineligible and not workload.is_scale_up
        if workload.queue == queue and is_tried and not _is_within_own(workload, snapshot.quota):
            yield workload


def _is_within_own(workload: PendingWorkload, quota: CohortQuota) -> bool:
    requests = assignments(workload.pod_sets, quota.queues[workload.queue])
    return any(quota.owns_with(workload.queue, request) for request in requests)


def restore(snapshot: Snapshot, open_cessions: Sequence[Cession]) -> Iterator[Action]:
    """Queues are BestEffortFIFO again when no open Cession needs more of them, also if the
    scheduler died between two writes. stopped_jobs.py does the same for Workloads that were set
    aside."""
    needed = {cession.spec.preemptor.queue for cession in open_cessions}
    for queue in snapshot.quota.queues.values():
        if queue.managed and queue.strategy == STRICT_FIFO and queue.name not in needed:
            yield SetQueueingStrategy(queue.name, BEST_EFFORT_FIFO, queue.version)
