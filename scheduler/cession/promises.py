"""PURE. What open Cessions have promised to their preemptors, and what is left for others."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from operator import attrgetter

from cede.api.cession import Cession, Target
from cede.api.objects import unix
from cede.api.resources import Quota
from cede.api.short_text import listed
from scheduler.cession.preemptor_state import find_preemptor
from scheduler.preemption.preemption_plan import Target as Release
from scheduler.quota.assignments import assignments
from scheduler.quota.working_quota import WorkingQuota
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload

CLOCK_DIFFERENCE_S = 5.0
MAX_TAKERS = 500
"""Characters."""


def target_uids(cessions: Collection[Cession]) -> set[str]:
    return {target.uid for cession in cessions for target in cession.spec.targets}


def after_cessions(snapshot: Snapshot, open_cessions: Collection[Cession]) -> Snapshot:
    """The snapshot as it will be when all open Cessions are completed, and all evictions: the
    preemptors use what is released. Targets and evicted jobs are no candidates any more."""
    quota = working_quota_after(snapshot, open_cessions)
    targets = target_uids(open_cessions)
    left = snapshot.admitted
    if targets:
        left = tuple(job for job in left if job.identity not in targets)
    evicted = list(filter(attrgetter("is_evicting"), left))
    for job in evicted:
        quota.remove(job.queue, job.usage)
    if evicted:
        left = tuple(job for job in left if not job.is_evicting)
    return replace(snapshot, quota=quota.frozen(), admitted=left)


def working_quota_after(snapshot: Snapshot, open_cessions: Collection[Cession]) -> WorkingQuota:
    quota = WorkingQuota(snapshot.quota)
    for cession in open_cessions:
        pending = find_preemptor(cession, snapshot).pending
        if pending is not None:
            for job, released in releases(cession, snapshot).values():
                quota.remove(job.queue, released)
            quota.add(pending.queue, request_of(cession, pending, snapshot))
    return quota


def request_of(cession: Cession, pending: PendingWorkload, snapshot: Snapshot) -> Quota:
    """What the preemptor requests, on the flavors for which the Cession was planned; empty if its
    queue does not have them any more."""
    needed = {(need.flavor, need.resource) for need in cession.spec.need}
    requests = assignments(pending.pod_sets, snapshot.quota.queues[pending.queue])
    return next((request for request in requests if needed <= request.keys()), Counter())


def releases(cession: Cession, snapshot: Snapshot) -> dict[str, tuple[AdmittedWorkload, Quota]]:
    """By the uid of the target: its job, and what it has yet to release. The quota of an inactive
    job is free already."""
    left = dict[str, tuple[AdmittedWorkload, Quota]]()
    for target in cession.spec.targets:
        job = snapshot.find_job(target.uid)
        if job and job.active and target.toSize < job.size:
            left[target.uid] = job, Release(job, target.toSize).released
    return left


def suffices(
    cession: Cession,
    snapshot: Snapshot,
    others: Collection[Cession],
    needed: Collection[str] | None = None,
) -> bool:
    """Whether the preemptor fits once all targets have released their capacity, or only those with
    the uids in `needed`, and the other open Cessions have what they were promised."""
    pending = find_preemptor(cession, snapshot).pending
    if pending is None:
        return False
    quota = working_quota_after(snapshot, others)
    for uid, (job, released) in releases(cession, snapshot).items():
        if needed is None or uid in needed:
            quota.remove(job.queue, released)
    request = request_of(cession, pending, snapshot)
    return bool(request) and quota.fits(pending.queue, request)


def needed_targets(cession: Cession, snapshot: Snapshot, others: Collection[Cession]) -> set[str]:
    """The uids of the targets without which the preemptor would not fit, once the other open
    Cessions have what they were promised. All of them if it does not fit even with all.

    A job may have ended, or the preemptor may request less than before. Stops are the first that
    are not needed. A target that is being resized or stopped stays needed. A job of the
    preemptor's own team does not stay at the cost of other teams: as long as one of them gives,
    the preemptor must stay within its team's quota.
    """
    uids = target_uids([cession])
    pending = find_preemptor(cession, snapshot).pending
    if pending is None:
        return uids
    quota = working_quota_after(snapshot, others)
    request = request_of(cession, pending, snapshot)
    left = releases(cession, snapshot)
    for job, released in left.values():
        quota.remove(job.queue, released)
    if not request or not quota.fits(pending.queue, request):
        return uids
    others_giving = sum(job.queue != pending.queue for job, _ in left.values())
    for target in _dearest_first(cession, left):
        job, released = left[target.uid]
        is_own = job.queue == pending.queue
        quota.add(job.queue, released)
        is_rightful = not is_own or not others_giving or quota.owns_with(pending.queue, request)
        if is_rightful and quota.fits(pending.queue, request):
            uids.discard(target.uid)
            others_giving -= not is_own
        else:
            quota.remove(job.queue, released)
    return uids


def _dearest_first(cession: Cession, left: Collection[str]) -> Sequence[Target]:
    """The targets that can still be let off: those that stop, then those that shrink. A plan lists
    the gentlest last."""
    statuses = {status.uid: status for status in cession.status.targets}
    committed = {uid for uid, s in statuses.items() if s.resizeRequestedTime or s.stopped}
    targets = [t for t in cession.spec.targets if t.uid in left and t.uid not in committed]
    return sorted(targets, key=lambda target: target.how != "Stop")


def takers(cession: Cession, snapshot: Snapshot) -> str:
    """The jobs that were admitted into what the preemptor lacks, in a sentence: since the release,
    or before it since the plan, which counted with what was free. Kueue writes these times, so they
    may differ from ours by the difference of the clocks."""
    released = cession.status.releasedTime
    began, what = (unix(released), "release") if released else (cession.metadata.created, "plan")
    keys = {(need.flavor, need.resource) for need in cession.spec.need}
    uids = target_uids([cession])
    since = began - CLOCK_DIFFERENCE_S
    newest_first = sorted(snapshot.admitted, key=lambda job: -job.reserved_since)
    jobs = [
        f"{job.name} ({job.queue})"
        for job in newest_first
        if job.reserved_since >= since
        and job.identity not in uids
        and not keys.isdisjoint(+job.usage)
    ]
    return f"Admitted since the {what}: {listed(jobs, MAX_TAKERS)}." if jobs else ""
