"""PURE. Released capacity is kept for the preemptor of a Cession until Kueue admits it.

Kueue keeps capacity for the first Workload of a StrictFIFO queue, in every scheduling cycle, if the
queue does not exceed its nominal quota with it (Kueue: pkg/scheduler/scheduler.go,
reserveCapacityForUnreclaimablePreempt). So the queue is set to StrictFIFO, and Workloads that wait
before the preemptor without a chance are set inactive for the while.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cede.api.cession import Cession
from cede.api.objects import rfc3339, unix
from cede.api.reasons import CessionPhase
from scheduler.actions import Action, SetQueueingStrategy, SetWorkloadActive
from scheduler.assignments import assignments
from scheduler.cohort import BEST_EFFORT_FIFO, STRICT_FIFO, Queue
from scheduler.snapshot import Snapshot
from scheduler.workloads import PendingWorkload

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
    # why targets may not release their capacity; empty if they may
    why: str = ""


def prepare(cession: Cession, snapshot: Snapshot, now: float) -> Reservation:
    """The reservation for a preemptor that is pending. `restore` ends it."""
    queue = snapshot.quota.queues[cession.spec.preemptor.queue]
    since = cession.status.reservedTime
    if cession.status.phase is CessionPhase.ADMITTED:
        return Reservation(since=since, why="the preemptor was admitted before")
    why = f"it waits before {cession.spec.preemptor.workload} and does not fit its team's own quota"
    parks = tuple(
        SetWorkloadActive(workload.key, workload.uid, False, why, cession.metadata.name)
        for workload in hopeless_heads(cession, snapshot)
    )
    if queue.strategy != STRICT_FIFO:
        strict = SetQueueingStrategy(queue.name, STRICT_FIFO, queue.version)
        return Reservation((strict, *parks), why="the queue becomes StrictFIFO")
    if not since and not queue.is_observed:
        return Reservation(parks, why="Kueue has not read the queue yet")
    since = since or rfc3339(now, micro=True)
    if parks:
        return Reservation(parks, since=since, why="Workloads before the preemptor are set aside")
    if now - unix(since) < WAKE_S:
        return Reservation(since=since, why="Kueue looks at the queue within a second")
    return Reservation(may_release=True, since=since)


def hopeless_heads(cession: Cession, snapshot: Snapshot) -> Iterator[PendingWorkload]:
    """The Workloads that Kueue would try before the preemptor, and that do not fit into the rest of
    their team's own quota.

    Kueue keeps nothing for them, and under StrictFIFO tries no other Workload of the queue. A
    Workload within its team's own quota is left alone: it goes first by right.
    """
    queue = snapshot.quota.queues[cession.spec.preemptor.queue]
    for workload in snapshot.pending:
        if workload.uid == cession.spec.preemptor.uid:
            return
        is_tried = workload.active and not workload.ineligible and not workload.is_scale_up
        if workload.queue == queue.name and is_tried and not _is_within_own(workload, queue):
            yield workload


def _is_within_own(workload: PendingWorkload, queue: Queue) -> bool:
    return any(queue.owns_with(request) for request in assignments(workload.pod_sets, queue))


def restore(snapshot: Snapshot, open_cessions: Sequence[Cession]) -> Iterator[Action]:
    """What was changed for a preemptor is changed back when it does not wait any more, also if the
    scheduler died between two writes. scheduler/stopped_jobs.py does the same for Workloads whose
    Cession has ended."""
    pending = {workload.uid for workload in snapshot.pending if workload.active}
    waiting = [cession for cession in open_cessions if cession.spec.preemptor.uid in pending]
    for cession in open_cessions:
        if cession not in waiting:
            yield from _let_wait_again(cession, snapshot)
    needed = {cession.spec.preemptor.queue for cession in waiting}
    for queue in snapshot.quota.queues.values():
        if queue.managed and queue.strategy == STRICT_FIFO and queue.name not in needed:
            yield SetQueueingStrategy(queue.name, BEST_EFFORT_FIFO, queue.version)


def _let_wait_again(cession: Cession, snapshot: Snapshot) -> Iterator[SetWorkloadActive]:
    """The Workloads that were set aside for the preemptor; not the targets that were stopped."""
    targets = {target.uid for target in cession.spec.targets}
    for workload in snapshot.pending:
        is_aside = workload.stopped_for == cession.metadata.name
        if is_aside and workload.identity not in targets:
            why = f"{cession.spec.preemptor.workload} does not wait any more"
            yield SetWorkloadActive(workload.key, workload.uid, active=True, why=why)
