"""PURE. What keeps released capacity for a preemptor until Kueue admits it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cede.api.cession import Cession
from cede.api.reasons import CessionPhase
from scheduler.actions import Action, SetQueueingStrategy
from scheduler.cohort import BEST_EFFORT_FIFO, STRICT_FIFO
from scheduler.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Reservation:
    """How far capacity is reserved for the preemptor of one Cession."""

    # what reserves it; every action can be repeated without harm
    actions: tuple[Action, ...] = ()
    # True if targets may release their capacity now
    may_release: bool = True
    # why they may not; empty if they may
    why: str = ""


def prepare(cession: Cession, snapshot: Snapshot, now: float) -> Reservation:
    """The reservation for a preemptor that is pending. Under StrictFIFO, Kueue keeps released
    capacity for the first Workload of the queue. `restore` ends it."""
    queue = snapshot.quota.queues[cession.spec.preemptor.queue]
    was_admitted = cession.status.phase is CessionPhase.ADMITTED
    if cession.spec.reserved and queue.strategy != STRICT_FIFO and not was_admitted:
        return Reservation((SetQueueingStrategy(queue.name, STRICT_FIFO, queue.version),))
    return Reservation()


def restore(snapshot: Snapshot, open_cessions: Sequence[Cession]) -> Iterator[Action]:
    """Queues return from StrictFIFO when no pending preemptor needs it, also if the scheduler died
    between two writes."""
    pending = {workload.uid for workload in snapshot.pending if workload.active}
    needed = {
        cession.spec.preemptor.queue
        for cession in open_cessions
        if cession.spec.reserved and cession.spec.preemptor.uid in pending
    }
    for queue in snapshot.quota.queues.values():
        if queue.managed and queue.strategy == STRICT_FIFO and queue.name not in needed:
            yield SetQueueingStrategy(queue.name, BEST_EFFORT_FIFO, queue.version)
