"""PURE. Which pending Workloads may take capacity from other jobs, and what each of them lacks."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from cede.api.objects import Key
from cede.api.resources import Quota
from scheduler.preemption.job_history import JobHistory
from scheduler.quota.assignments import assign, assignments
from scheduler.quota.cohort import CohortQuota, Queue
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import PendingWorkload


class ClaimKind(StrEnum):
    """Why a pending Workload may take capacity."""

    # its team owns what it lacks
    OWN_QUOTA = "own quota"
    # its team would borrow with it, and gives it precedence over its lower classes
    PRIORITY_IN_TEAM = "priority in the team"
    # its team would borrow less than the teams that give
    FAIR_SHARE = "fair share"
    # an elastic job grows into what its team owns
    GROWTH = "growth"


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A pending Workload that does not fit."""

    workload: PendingWorkload
    # for a job that grows: only what it needs in addition
    request: Quota
    missing: Quota
    kind: ClaimKind = ClaimKind.OWN_QUOTA

    @property
    def exceeds_nominal(self) -> bool:
        """Whether its queue would use more than its nominal quota with it. Then jobs of its own
        queue with lower priority must give way first."""
        return self.kind is ClaimKind.PRIORITY_IN_TEAM

    @property
    def is_owner(self) -> bool:
        """Whether a job waits for what its team owns. The growth of a job that runs is no wait."""
        return self.kind in (ClaimKind.OWN_QUOTA, ClaimKind.PRIORITY_IN_TEAM)


def preemptors(
    snapshot: Snapshot,
    queues_with_open_cession: Collection[str] = (),
    history: JobHistory | None = None,
    *,
    fair_shares: bool = False,
) -> Iterator[Preemptor]:
    """The preemptors in Kueue's order, first those of the highest priority. A Workload may come
    twice, with two claims; the caller takes the first for which jobs can give. A job that was
    stopped for a preemptor that still exists only reclaims what its own team owns.

    Of Workloads of one queue that request the same, the first speaks for all: a later one has no
    more to take from, as its priority is not higher. Claims for a fair share are left out unless
    `fair_shares`.
    """
    quota = snapshot.quota
    stopped = _stopped_for_others(snapshot, history or JobHistory())
    done = set(queues_with_open_cession)
    examined = set[str]()
    for workload in snapshot.pending if stopped else snapshot.pending.first_of_each_kind:
        queue = snapshot.quota.queues[workload.queue]
        # an ineligible one Kueue would not try: it neither claims nor comes before those behind it
        if queue.name in done or not queue.managed or workload.ineligible:
            continue
        if workload.is_scale_up:
            yield from _growth(quota, queue, workload)
            continue
        was_stopped = workload.identity in stopped
        # one that was stopped may not take from everybody, so it speaks for itself only
        kind = workload.identity + workload.kind if was_stopped else workload.kind
        if kind in examined:
            continue
        examined.add(kind)
        if assign(workload.pod_sets, queue.name, quota) is not None:
            # Kueue admits a Workload that fits without us, and then the queue is another
            if workload.uid not in snapshot.overdue:
                done.add(queue.name)
            continue
        # where nothing is missing, nobody has to release anything
        requests = [
            request
            for request in assignments(workload.pod_sets, queue)
            if not quota.fits(queue.name, request)
        ]
        for claim in _claims(quota, queue, workload, requests, fair_shares):
            if claim.kind is ClaimKind.OWN_QUOTA or not was_stopped:
                yield claim


def _stopped_for_others(snapshot: Snapshot, history: JobHistory) -> set[str]:
    """The identities of jobs that were stopped for a preemptor that still exists."""
    if not history.stopped_for:
        return set()
    existing: set[str | Key] = {workload.uid for workload in snapshot.pending}
    existing |= {workload.job for workload in snapshot.pending}
    existing |= {job.uid for job in snapshot.admitted} | {job.job for job in snapshot.admitted}
    return {
        identity
        for identity, preemptors in history.stopped_for.items()
        if not preemptors.isdisjoint(existing)
    }


def _claims(
    quota: CohortQuota,
    queue: Queue,
    workload: PendingWorkload,
    requests: Iterable[Quota],
    fair_shares: bool,
) -> Iterator[Preemptor]:
    """On each choice of flavors, in the queue's order of preference: first those that its team owns
    beside all that it uses, as Kueue prefers them (pkg/scheduler/flavorassigner, isPreferred), then
    those that lower classes of its team use.

    Kueue tries a Workload that would borrow after those that would not. So nothing is kept for a
    claim beyond its team's own quota before its own team has released its part.

    A team over its hard budget has no claim on what it borrows already: all of that would have to
    end before Kueue admits one more job of it, and no job ends for a budget.
    """
    if queue.is_over_budget:
        requests = [request for request in requests if not quota.borrows(queue.name, request)]
    owned = [request for request in requests if queue.owns(request)]
    for request in owned:
        if quota.owns_with(queue.name, request):
            missing = quota.missing(queue.name, request)
            yield Preemptor(workload, request, missing)
    for request in owned:
        if not quota.owns_with(queue.name, request):
            missing = quota.missing(queue.name, request)
            kind = ClaimKind.PRIORITY_IN_TEAM
            yield Preemptor(workload, request, missing, kind=kind)
    for request in requests:
        if fair_shares and not quota.owns_with(queue.name, request):
            missing = quota.missing(queue.name, request)
            kind = ClaimKind.FAIR_SHARE
            yield Preemptor(workload, request, missing, kind=kind)


# --- growth ---------------------------------------------------------------------------------------
def _growth(quota: CohortQuota, queue: Queue, workload: PendingWorkload) -> Iterator[Preemptor]:
    """The claim of a scale-up slice, within what its team owns."""
    for request in assignments(workload.pod_sets, queue):
        missing = quota.missing(queue.name, request)
        if missing and quota.owns_with(queue.name, request):
            yield Preemptor(workload, request, missing, kind=ClaimKind.GROWTH)
            return
