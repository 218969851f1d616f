"""PURE. What Kueue is about to admit: capacity that is idle now, and not for long."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace

from cede.api.resources import Quota
from scheduler.quota.assignments import assign
from scheduler.quota.cohort import NO_SHARE, STRICT_FIFO, Share
from scheduler.quota.working_quota import WorkingQuota
from scheduler.snapshot.pending_queues import kueue_order
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import PendingWorkload


def after_admissions(
    snapshot: Snapshot, counted: Collection[str] = (), *, fair_sharing: bool
) -> Snapshot:
    """The snapshot with the quota as it will be when Kueue has admitted what fits. What came free
    is admitted into up to a second later. Kueue keeps none of it for a claim beyond its team's own
    quota, so such a claim must not count on it.

    `counted`: uids of pending Workloads whose requests the quota counts as used already.
    """
    admissions = _Admissions(snapshot, counted, fair_sharing=fair_sharing)
    while admissions.run_cycle():
        pass
    quota = admissions.working.frozen()
    return snapshot if quota is snapshot.quota else replace(snapshot, quota=quota)


def next_admissions(snapshot: Snapshot, *, fair_sharing: bool) -> tuple[PendingWorkload, ...]:
    """The Workloads that Kueue is about to admit, in its order."""
    admissions = _Admissions(snapshot, (), fair_sharing=fair_sharing)
    while admissions.run_cycle():
        pass
    return tuple(admissions.admitted)


class _Admissions:
    """Kueue's cycles, one after the other. Each takes one head of each queue; under StrictFIFO
    nothing comes after a head that does not fit (Kueue: pkg/scheduler/scheduler.go)."""

    def __init__(self, snapshot: Snapshot, counted: Collection[str], *, fair_sharing: bool) -> None:
        self.working = WorkingQuota(snapshot.quota)
        self.admitted = list[PendingWorkload]()
        self._fair_sharing = fair_sharing
        # of each queue, what is available on one flavor
        self._room = dict[str, dict[str, int]]()
        self._heads = dict[str, PendingWorkload]()
        # the same request does not fit later either: less and less is available
        self._failed = set[str]()
        self._lines = dict[str, Iterator[PendingWorkload]]()
        if any(map(self._may_fit, snapshot.pending.first_of_each_kind)):
            self._lines = self._in_lines(snapshot, counted)

    def _in_lines(
        self, snapshot: Snapshot, counted: Collection[str]
    ) -> dict[str, Iterator[PendingWorkload]]:
        """By queue, those that Kueue tries. What cannot fit takes its queue a cycle, once for each
        kind."""
        lines = defaultdict[str, list[PendingWorkload]](list)
        for workload in snapshot.pending:
            lines[workload.queue].append(workload)
        return {name: self._tried(line, snapshot, counted) for name, line in lines.items()}

    def _tried(
        self, line: list[PendingWorkload], snapshot: Snapshot, counted: Collection[str]
    ) -> Iterator[PendingWorkload]:
        for workload in line:
            if workload.kind in self._failed or workload.uid in counted:
                continue
            if workload.active and not workload.ineligible and workload.uid not in snapshot.overdue:
                yield workload

    def run_cycle(self) -> bool:
        """Whether there may be another one."""
        nominated = list[tuple[PendingWorkload, Quota]]()
        for name in list(self._lines):
            head = self._heads.pop(name, None) or next(self._lines[name], None)
            usage = self._assigned(head) if head else None
            if head and usage is not None:
                nominated.append((head, usage))
            elif head is None or self.working.queues[name].strategy == STRICT_FIFO:
                del self._lines[name]
            else:
                self._failed.add(head.kind)
        for head, usage in sorted(nominated, key=self._order):
            if self.working.fits(head.queue, usage):
                self.working.add(head.queue, usage)
                self.admitted.append(head)
                self._room.clear()
            else:
                # it is tried again in the next cycle
                self._heads[head.queue] = head
        return bool(self._lines)

    def _order(self, nominated: tuple[PendingWorkload, Quota]) -> tuple[object, ...]:
        """Each queue has one head, so no share changes before its head is processed."""
        head, usage = nominated
        borrows = not self.working.owns_with(head.queue, usage)
        share: Share = NO_SHARE
        if self._fair_sharing:
            share = self.working.share_with(head.queue, usage)
        return borrows, share, kueue_order(head)

    def _assigned(self, workload: PendingWorkload) -> Quota | None:
        if not self._may_fit(workload):
            return None
        return assign(workload.pod_sets, workload.queue, self.working)

    def _may_fit(self, workload: PendingWorkload) -> bool:
        """Whether each pod set might fit on some flavor. It is cheap: of the many that wait while
        everything is in use, none is looked at any further."""
        if workload.queue not in self._room:
            self._room[workload.queue] = _room(self.working, workload.queue)
        room = self._room[workload.queue]
        for pods in workload.pod_sets:
            for resource, amount in pods.per_pod.items():
                if amount * pods.count > room.get(resource, 0):
                    return False
        return True


def _room(quota: WorkingQuota, queue: str) -> dict[str, int]:
    """The most of each resource that is available on one flavor."""
    room = dict[str, int]()
    for key in quota.queues[queue].quotas:
        room[key[1]] = max(room.get(key[1], 0), quota.available(queue, key))
    return room
