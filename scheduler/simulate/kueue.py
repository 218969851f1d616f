"""PURE. A model of Kueue 0.19.2's queues, for one flavor and a flat Cohort.

Each cycle takes one head of each queue. What does not fit is parked until a batch 1 s after
capacity came free; under StrictFIFO it stays the head. pkg/cache/queue.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cede.api import private_quota
from scheduler.actions import CreateGuard, DeleteGuard, JoinGuard, SetPrivateQuota
from scheduler.quota.cohort import BEST_EFFORT_FIFO, STRICT_FIFO
from scheduler.simulate.objects import Guard, Queue, TeamQuota, Workload
from scheduler.simulate.quota import Quota

BATCH_S = 1.0
"""Kueue: requeueBatchPeriod."""
OBSERVE_S = 0.2
"""Until Kueue's status shows that it read a change of a ClusterQueue."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How Kueue is configured."""

    # False: each team has its own quota only
    shares: bool = True
    fair_sharing: bool = True
    # reclaimWithinCohort Any and withinClusterQueue LowerPriority; otherwise both are Never
    preempts: bool = False


class Kueue:
    """The queues, and what is admitted. `now` is set by whoever drives it."""

    def __init__(self, teams: Iterable[TeamQuota], settings: Settings) -> None:
        self.settings = settings
        self.queues = {team.name: Queue(team) for team in teams}
        # by Cession
        self.guards: dict[str, Guard] = {}
        self.admitted: dict[str, Workload] = {}
        # when parked Workloads are tried again; None if nothing came free
        self.batch_at: float | None = None
        # whether another cycle could decide something else than the last one
        self.is_changed = False

    # --- what others do -------------------------------------------------------------------------
    def submit(self, workload: Workload) -> None:
        """Put a pending Workload into its queue."""
        queue = self.queues[workload.job.spec.team]
        queue.parked.pop(workload.name, None)
        if not workload.active:
            queue.heap.pop(workload.name, None)
            return
        waits = queue.strategy == BEST_EFFORT_FIFO and kind(workload) in queue.hopeless
        place = queue.parked if waits else queue.heap
        place[workload.name] = workload
        self.is_changed = True

    def requeue(self, workload: Workload, since: str) -> None:
        """The spec of a pending Workload has changed, so it is tried in the next cycle."""
        if workload.reserved_since is None:
            workload.requeued_at = since
            workload.is_tried = False
            self.submit(workload)

    def withdraw(self, workload: Workload) -> None:
        """Take a pending Workload out of its queue."""
        queue = self.queues[workload.job.spec.team]
        queue.heap.pop(workload.name, None)
        queue.parked.pop(workload.name, None)
        if queue.preemptor == workload.name:
            queue.preemptor = ""

    def free(self, workload: Workload, now: float) -> None:
        """The Workload is inactive: Kueue counts its quota no more, although it is admitted until
        its pods are gone."""
        if workload.name in self.admitted and not workload.is_freed:
            self.queues[workload.job.spec.team].usage -= workload.count
            workload.is_freed = True
            self.capacity_changed(now)

    def release(self, workload: Workload, now: float) -> None:
        """The Workload is not admitted any more."""
        self.free(workload, now)
        if self.admitted.pop(workload.name, None):
            workload.reserved_since = None
            workload.is_freed = False

    def shrink(self, workload: Workload, count: int, now: float) -> None:
        self.queues[workload.job.spec.team].usage -= workload.count - count
        workload.count = count
        self.capacity_changed(now)

    def set_strategy(self, name: str, strategy: str, now: float) -> None:
        self.queues[name].strategy = strategy
        self._is_written(self.queues[name], now)

    def set_quota(self, quota: TeamQuota, now: float) -> None:
        self.queues[quota.name].quota = quota
        self._is_written(self.queues[quota.name], now)

    def set_private_quota(self, queue: Queue, action: SetPrivateQuota, now: float) -> None:
        """The quota that the action writes, and its note."""
        [group] = action.resource_groups
        [written] = group["flavors"][0]["resources"]
        limit = written.get("lendingLimit")
        queue.private = action.note
        lent = None if limit is None else int(limit)
        nominal = int(written["nominalQuota"])
        self.set_quota(replace(queue.quota, nominal=nominal, lending_limit=lent), now)

    def _is_written(self, queue: Queue, now: float) -> None:
        queue.version += 1
        queue.observed_at = now + OBSERVE_S
        self.capacity_changed(now)

    def capacity_changed(self, now: float) -> None:
        """Parked Workloads are tried again with the next batch; heads at once."""
        self.is_changed = True
        if self.batch_at is None:
            self.batch_at = now + BATCH_S

    def run_batch(self) -> None:
        """All parked Workloads may be tried again."""
        self.batch_at = None
        for queue in self.queues.values():
            queue.heap.update(queue.parked)
            queue.parked.clear()
            queue.hopeless.clear()
        self.is_changed = True

    # --- what a cycle does --------------------------------------------------------------------
    @property
    def has_heads(self) -> bool:
        """Whether another cycle could decide something else than the last one."""
        return self.is_changed and any(
            queue.heap and not queue.on_hold for queue in self.queues.values()
        )

    def pop_heads(self) -> list[Workload]:
        """The first Workload of each queue, no longer in its heap."""
        heads = list[Workload]()
        for queue in self.queues.values():
            if queue.heap and not queue.on_hold:
                pending = queue.heap.values()
                head = min(pending, key=lambda w: queue_order(w, queue.preemptor))
                del queue.heap[head.name]
                heads.append(head)
        return heads

    def change_guard(self, action: CreateGuard | JoinGuard | DeleteGuard) -> Guard | None:
        """The guard, if one is made."""
        match action:
            case CreateGuard():
                if action.cession not in self.guards:
                    made = Guard(sum(action.amounts.values()))
                    self.guards[action.cession] = made
                    return made
            case JoinGuard():
                self.guards[action.cession].in_cohort = True
            case DeleteGuard():
                self.guards.pop(action.cession, None)
        return None

    def end_guard(self, cession: str, guard: Guard) -> None:
        """If it was not deleted before, and another one made for the same Cession. The
        quota_controller then changes private quota back."""
        if self.guards.get(cession) is not guard:
            return
        guard.is_admitted = False
        for queue in self.queues.values():
            note = private_quota.parse(queue.private)
            if note and note.cession == cession:
                [before] = note.originals
                limit = before.lending_limit
                queue.quota = replace(
                    queue.quota,
                    nominal=int(before.nominal or 0),
                    lending_limit=None if limit is None else int(limit),
                )

    def quota(self) -> Quota:
        guards = self.guards.values()
        guarded = sum(g.accelerators for g in guards if g.in_cohort and g.is_admitted)
        return Quota(self.queues, shares=self.settings.shares, guarded=guarded)

    def admit(self, workload: Workload, now: float) -> None:
        """The Workload has quota; the one that it replaces has none any more."""
        queue = self.queues[workload.job.spec.team]
        queue.usage += workload.added
        if queue.preemptor == workload.name:
            queue.preemptor = ""
        if workload.replaces:
            self.admitted.pop(workload.replaces.name, None)
            workload.replaces.reserved_since = None
            workload.replaces = None
        workload.reserved_since = now
        self.admitted[workload.name] = workload
        self.is_changed = True

    def retry(self, workload: Workload) -> None:
        """The Workload stays in the heap."""
        self.queues[workload.job.spec.team].heap[workload.name] = workload

    def park(self, workload: Workload) -> None:
        """A strict head stays a head. Otherwise all equal requests are parked with it
        (SchedulingEquivalenceHashing)."""
        queue = self.queues[workload.job.spec.team]
        if queue.strategy == STRICT_FIFO:
            queue.heap[workload.name] = workload
            return
        queue.parked[workload.name] = workload
        queue.hopeless.add(kind(workload))
        equal = [other for other in queue.heap.values() if kind(other) == kind(workload)]
        for other in equal:
            queue.parked[other.name] = queue.heap.pop(other.name)
        self.is_changed = True


Order = tuple[bool, int, float, str]


def queue_order(workload: Workload, preemptor: str = "") -> Order:
    """Kueue's order in a queue: the preemptor, the highest priority, the oldest, the uid."""
    spec = workload.job.spec
    return (workload.name != preemptor, -spec.priority, workload.created, workload.uid)


def kind(workload: Workload) -> tuple[int, int]:
    """Equal for Workloads of a queue that Kueue would treat alike."""
    return workload.added, workload.job.spec.priority
