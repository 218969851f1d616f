"""PURE. Which Workloads stock Kueue preempts: reclaimWithinCohort Any, withinClusterQueue
LowerPriority, without fair sharing.

Kueue 0.19.2: pkg/scheduler/preemption/preemption.go (classicalPreemptions), classical/, common/.
"""

from collections.abc import Iterable

from scheduler.simulate.objects import Workload
from scheduler.simulate.quota import Quota


def targets(workload: Workload, admitted: Iterable[Workload], quota: Quota) -> list[Workload]:
    """The smallest set by Kueue's heuristic; empty if no set is enough. `quota` is left as it was.

    A request within the nominal quota takes from queues that borrow, and any takes from jobs of
    its own queue with lower priority.
    """
    name = workload.job.spec.team
    candidates = [other for other in admitted if _is_candidate(workload, other, quota)]
    candidates.sort(key=lambda other: _order(name, other))
    from_others = any(other.job.spec.team != name for other in candidates)
    is_below = quota.usage[name] < quota.queues[name].quota.nominal
    for may_borrow in (True, False) if from_others and is_below else (True,):
        chosen = _attempt(workload, candidates, quota, may_borrow=may_borrow)
        if chosen:
            return chosen
    return []


def _is_candidate(workload: Workload, other: Workload, quota: Quota) -> bool:
    if other.job.spec.team == workload.job.spec.team:
        return other.job.spec.priority < workload.job.spec.priority
    return quota.shares and quota.borrows(other.job.spec.team)


def _order(name: str, other: Workload) -> tuple[bool, bool, int, float, str]:
    """Those that are evicted already, other teams, the lowest priority, the youngest."""
    return (
        not other.is_evicting,
        other.job.spec.team == name,
        other.job.spec.priority,
        -(other.reserved_since or 0.0),
        other.name,
    )


def _attempt(
    workload: Workload, candidates: list[Workload], quota: Quota, *, may_borrow: bool
) -> list[Workload]:
    name = workload.job.spec.team
    within_nominal = not quota.borrows(name, workload.added)
    chosen = list[Workload]()
    for other in candidates:
        team = other.job.spec.team
        if team != name:
            # only a request within the nominal quota reclaims; one that borrows may not
            reclaims = within_nominal if may_borrow else True
            if not reclaims or not quota.borrows(team):
                continue
        quota.add(team, -other.count)
        chosen.append(other)
        if _fits(workload, quota, may_borrow=may_borrow):
            kept = _fill_back(workload, chosen, quota, may_borrow=may_borrow)
            _restore(kept, quota)
            return kept
    _restore(chosen, quota)
    return []


def _fits(workload: Workload, quota: Quota, *, may_borrow: bool) -> bool:
    name = workload.job.spec.team
    if not may_borrow and quota.borrows(name, workload.added):
        return False
    return workload.added <= quota.available(name)


def _fill_back(
    workload: Workload, chosen: list[Workload], quota: Quota, *, may_borrow: bool
) -> list[Workload]:
    """Without those that turn out not to be needed, tried in reverse order."""
    kept = chosen[-1:]
    for other in reversed(chosen[:-1]):
        quota.add(other.job.spec.team, other.count)
        if not _fits(workload, quota, may_borrow=may_borrow):
            quota.add(other.job.spec.team, -other.count)
            kept.append(other)
    return kept


def _restore(chosen: list[Workload], quota: Quota) -> None:
    for other in chosen:
        quota.add(other.job.spec.team, other.count)
