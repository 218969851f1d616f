"""PURE. What Kueue is about to admit: capacity that is idle now, and not for long."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from scheduler.quota.assignments import assign
from scheduler.quota.cohort import CohortQuota
from scheduler.quota.working_quota import WorkingQuota
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import PendingWorkload


def after_admissions(snapshot: Snapshot, counted: Collection[str] = ()) -> Snapshot:
    """The snapshot with the quota as it will be when Kueue has admitted what fits. What came free
    is admitted into up to a second later. Kueue keeps none of it for a claim beyond its team's own
    quota, so such a claim must not count on it.

    `counted`: uids of pending Workloads whose requests the quota counts as used already.
    """
    kinds = set(_kinds_with_room(snapshot))
    working = WorkingQuota(snapshot.quota)
    for workload in snapshot.pending if kinds else ():
        if workload.kind not in kinds or workload.uid in counted:
            continue
        if not _is_tried(workload, snapshot):
            continue
        usage = assign(workload.pod_sets, workload.queue, working)
        if usage is None:
            # the same request does not fit later either: less and less is available
            kinds.discard(workload.kind)
        else:
            working.add(workload.queue, usage)
    quota = working.frozen()
    return snapshot if quota is snapshot.quota else replace(snapshot, quota=quota)


def _kinds_with_room(snapshot: Snapshot) -> Iterator[str]:
    """The kinds of which each pod set might fit on some flavor. It is cheap: of the many that wait
    while everything is in use, none is looked at any further."""
    room = {name: _room(snapshot.quota, name) for name in snapshot.quota.queues}
    for workload in snapshot.pending.first_of_each_kind:
        if _may_fit(workload, room[workload.queue]):
            yield workload.kind


def _room(quota: CohortQuota, queue: str) -> dict[str, int]:
    """The most of each resource that is available on one flavor."""
    room = dict[str, int]()
    for key in quota.queues[queue].quotas:
        room[key[1]] = max(room.get(key[1], 0), quota.available(queue, key))
    return room


def _may_fit(workload: PendingWorkload, room: Mapping[str, int]) -> bool:
    for pods in workload.pod_sets:
        for resource, amount in pods.per_pod.items():
            if amount * pods.count > room.get(resource, 0):
                return False
    return True


def _is_tried(workload: PendingWorkload, snapshot: Snapshot) -> bool:
    return workload.active and not workload.ineligible and workload.uid not in snapshot.overdue
