"""PURE. One cycle of the model of Kueue 0.19.2: pkg/scheduler/scheduler.go, `schedule`.

The heads are nominated on the quota as it is: each fits, or preempts, or does not fit. Then they
are processed in order, each on what those before it have left.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.simulate import stock_preemption
from scheduler.simulate.kueue import Kueue, queue_order
from scheduler.simulate.objects import Workload
from scheduler.simulate.quota import Quota


@dataclass(slots=True)
class Result:
    """What one cycle decided."""

    admitted: list[Workload] = field(default_factory=list)
    # to be evicted
    preempted: list[Workload] = field(default_factory=list)
    # the same, with those whose eviction is under way
    targets: list[Workload] = field(default_factory=list)
    # heads that their team's own quota would cover, and that do not fit
    owed: list[Workload] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Entry:
    """A head as it was nominated."""

    workload: Workload
    fits: bool
    targets: list[Workload]

    @property
    def queue(self) -> str:
        return self.workload.job.spec.team


def run_cycle(kueue: Kueue, now: float) -> Result:
    """Admit what fits. The caller evicts what is preempted."""
    quota = kueue.quota()
    heads = kueue.pop_heads()
    kueue.is_changed = False
    for workload in heads:
        workload.is_tried = True
    entries = [_nominate(kueue, workload, quota) for workload in heads]
    result = Result()
    for entry in _ordered(kueue, entries, quota):
        if entry.fits:
            _process_fitting(kueue, entry, quota, result, now)
        else:
            _process_waiting(kueue, entry, quota, result)
    return result


def _nominate(kueue: Kueue, workload: Workload, quota: Quota) -> Entry:
    name = workload.job.spec.team
    fits = workload.added <= quota.available(name)
    may_preempt = not fits and kueue.settings.preempts and _within_nominal(kueue, workload)
    admitted = kueue.admitted.values() if may_preempt else ()
    return Entry(workload, fits, stock_preemption.targets(workload, admitted, quota))


def _within_nominal(kueue: Kueue, workload: Workload) -> bool:
    """Only such a request may preempt, or reserve capacity (flavorassigner.go)."""
    return workload.added <= kueue.queues[workload.job.spec.team].quota.nominal


# --- order ----------------------------------------------------------------------------------------
def _ordered(kueue: Kueue, entries: list[Entry], quota: Quota) -> Iterable[Entry]:
    if not kueue.settings.fair_sharing:
        yield from sorted(
            entries,
            key=lambda entry: (
                quota.borrows(entry.queue, entry.workload.added),
                *queue_order(entry.workload)[1:],
            ),
        )
        return
    left = list(entries)
    while left:
        # the shares change with each entry that is processed: fair_sharing_iterator.go
        winner = min(left, key=lambda entry: _fair_key(entry, quota))
        left.remove(winner)
        yield winner


def _fair_key(entry: Entry, quota: Quota) -> tuple[bool, float, int, float, str]:
    added = entry.workload.added
    return (
        quota.borrows(entry.queue, added),
        quota.share(entry.queue, added),
        *queue_order(entry.workload)[1:],
    )


# --- process --------------------------------------------------------------------------------------
def _process_fitting(kueue: Kueue, entry: Entry, quota: Quota, result: Result, now: float) -> None:
    """Those that no longer fit are tried again in the next cycle, in any queue."""
    needed = entry.workload.added
    if needed > quota.available(entry.queue):
        kueue.retry(entry.workload)
        return
    quota.add(entry.queue, needed)
    kueue.admit(entry.workload, now)
    result.admitted.append(entry.workload)


def _process_waiting(kueue: Kueue, entry: Entry, quota: Quota, result: Result) -> None:
    workload = entry.workload
    if not quota.borrows(entry.queue, workload.added):
        result.owed.append(workload)
    if entry.targets:
        _preempt(kueue, entry, quota, result)
        return
    can_always_reclaim = kueue.settings.preempts
    if _within_nominal(kueue, workload) and not can_always_reclaim:
        quota.add(entry.queue, _reserved(kueue, workload, quota))
    kueue.park(workload)


def _preempt(kueue: Kueue, entry: Entry, quota: Quota, result: Result) -> None:
    """Two preemptors in one cycle may not take the same target."""
    kueue.retry(entry.workload)
    overlaps = any(target in result.targets for target in entry.targets)
    if overlaps or not _fits_without(entry, quota):
        return
    quota.add(entry.queue, entry.workload.added)
    kueue.queues[entry.queue].preemptor = entry.workload.name
    result.targets += entry.targets
    result.preempted += [target for target in entry.targets if not target.is_evicting]


def _fits_without(entry: Entry, quota: Quota) -> bool:
    """Whether the head fits once its targets are gone."""
    for target in entry.targets:
        quota.add(target.job.spec.team, -target.count)
    fits = entry.workload.added <= quota.available(entry.queue)
    for target in entry.targets:
        quota.add(target.job.spec.team, target.count)
    return fits


def _reserved(kueue: Kueue, workload: Workload, quota: Quota) -> int:
    """Kueue: quotaResourcesToReserve."""
    settings = kueue.queues[workload.job.spec.team].quota
    used = quota.usage[settings.name]
    if not quota.borrows(settings.name, workload.added):
        return max(0, min(workload.added, settings.nominal - used))
    if settings.borrowing_limit is None:
        return workload.added
    return min(workload.added, settings.nominal + settings.borrowing_limit - used)
