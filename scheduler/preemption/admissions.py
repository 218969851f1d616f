"""PURE. What Kueue is about to admit: capacity that is idle now, and not for long."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from scheduler.quota.assignments import assign
from scheduler.quota.working_quota import WorkingQuota
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import PendingWorkload


def after_admissions(snapshot: Snapshot, counted: Collection[str] = ()) -> Snapshot:
    """The snapshot with the quota as it will be when Kueue has admitted what fits. What came free
    is admitted into up to a second later. Kueue keeps none of it for a claim beyond its team's own
    quota, so such a claim must not count on it.

    `counted`: uids of pending Workloads whose requests the quota counts as used already.
    """
    working = WorkingQuota(snapshot.quota)
    room = dict[str, dict[str, int]]()
    # the same request does not fit later either: less and less is available
    failed = set[str]()
    for workload in snapshot.pending:
        name = workload.queue
        if name not in room:
            room[name] = _room(working, name)
        if workload.kind in failed or workload.uid in counted or not _is_tried(workload, snapshot):
            continue
        may_fit = _may_fit(workload, room[name])
        usage = assign(workload.pod_sets, name, working) if may_fit else None
        if usage is None:
            failed.add(workload.kind)
        else:
            working.add(name, usage)
            room.clear()
    quota = working.frozen()
    return snapshot if quota is snapshot.quota else replace(snapshot, quota=quota)


def _room(quota: WorkingQuota, queue: str) -> dict[str, int]:
    """The most of each resource that is available on one flavor."""
    room = dict[str, int]()
    for key in quota.queues[queue].quotas:
        room[key[1]] = max(room.get(key[1], 0), quota.available(queue, key))
    return room


def _may_fit(workload: PendingWorkload, room: Mapping[str, int]) -> bool:
    """Whether each pod set might fit on some flavor. It is cheap: of the many that wait while
    everything is in use, none is looked at any further."""
    for pods in workload.pod_sets:
        for resource, amount in pods.per_pod.items():
            if amount * pods.count > room.get(resource, 0):
                return False
    return True


def _is_tried(workload: PendingWorkload, snapshot: Snapshot) -> bool:
    return workload.active and not workload.ineligible and workload.uid not in snapshot.overdue
