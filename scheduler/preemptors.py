"""PURE. Which pending Workloads may take capacity from other jobs, and what each of them lacks."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from cede.api.resources import Quota
from scheduler.assignments import assignments
from scheduler.snapshot import Snapshot
from scheduler.workloads import PendingWorkload

MAX_TRIED_PER_QUEUE = 8
"""Workloads examined in one queue in one pass. It bounds the work for a long queue."""


class ClaimKind(StrEnum):
    """Why a pending Workload may take capacity."""

    OWN_QUOTA = "OwnQuota"
    PRIORITY_IN_TEAM = "PriorityInTeam"
    FAIR_SHARE = "FairShare"
    GROWTH = "Growth"


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A pending Workload that does not fit, and whose request is within its queue's own quota."""

    workload: PendingWorkload
    request: Quota
    missing: Quota
    # True if its queue would use more than its nominal quota with it. Then jobs of its own queue
    # with lower priority must give way first.
    exceeds_nominal: bool
    # True if it is the first of its queue: under StrictFIFO, Kueue keeps released capacity for it
    reserved: bool = True
    kind: ClaimKind = ClaimKind.OWN_QUOTA


def preemptors(
    snapshot: Snapshot,
    queues_with_open_cession: Collection[str] = (),
    suppressed: Collection[str] = (),
) -> Iterator[Preemptor]:
    """The preemptors in Kueue's order, first those of the highest priority.

    `suppressed` are uids of Workloads that may not preempt. A request above its queue's nominal
    quota is left out: Kueue 0.19.2 does not reserve capacity for it, and no other team owes it
    any. Fair sharing between borrowers is not implemented.
    """
    done = set(queues_with_open_cession)
    tried = Counter[str]()
    for workload in snapshot.pending:
        queue = snapshot.quota.queues[workload.queue]
        if queue.name in done or not queue.managed or workload.is_scale_up:
            continue
        # Kueue would not try it, so it neither claims nor comes before those behind it
        if workload.ineligible:
            continue
        requests = list(assignments(workload.pod_sets, queue))
        fits = any(snapshot.quota.fits(queue.name, request) for request in requests)
        if fits or tried[queue.name] >= MAX_TRIED_PER_QUEUE:
            # Kueue admits a Workload that fits without us, and then the queue is another
            done.add(queue.name)
            continue
        preemptor = _preemptor(snapshot, workload, requests, reserved=not tried[queue.name])
        if preemptor and workload.uid not in suppressed:
            yield preemptor
        tried[queue.name] += 1


def _preemptor(
    snapshot: Snapshot, workload: PendingWorkload, requests: Iterable[Quota], *, reserved: bool
) -> Preemptor | None:
    """On the first choice of flavors that the queue's own quota covers."""
    queue = snapshot.quota.queues[workload.queue]
    for request in requests:
        if queue.owns(request):
            return Preemptor(
                workload=workload,
                request=request,
                missing=snapshot.quota.missing(queue.name, request),
                exceeds_nominal=not queue.owns_with(request),
                reserved=reserved,
            )
    return None
