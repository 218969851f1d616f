"""PURE. By when a job that lacks quota is admitted at the latest, or why nobody can tell.

Nobody knows when a job ends whose time is not limited. But a team gets back within a grace period
what it owns and has lent; and jobs whose time is limited have ended by then.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from cede.api import names
from cede.api.kueue import Workload
from cede.api.objects import COHORTS, WORKLOADS, condition, is_true
from cede.causes import kueue_message
from cede.causes.amounts import requests
from cede.causes.facts import Estimate, estimate
from cede.causes.idle import idle_in_cohort
from cede.causes.index import Index, order_time
from cede.causes.kueue_message import Lack
from cede.causes.queue_quota import QueueQuota, others_in_cohort
from cede.causes.snapshot import leads
from cede.causes.time_limits import ends_of

TAKE_BACK = (
    "graceSeconds of the policy, within which its team takes back what it owns, if the jobs that "
    "give do not ask for a longer grace and nodes have room"
)
OWN_TIME_LIMITS = (
    "the maximum execution times of the team's jobs, and graceSeconds of the policy, if no job "
    "comes before this one"
)
TIME_LIMITS = (
    "the maximum execution times of the jobs of all teams, if no job is submitted that comes "
    "before this one"
)
NOT_FIRST = "other jobs come before it in its queue, and nobody knows when those are admitted"
NO_LIMITS = "the jobs that use it have no maximum execution time, so nobody knows when they end"
OTHERS_WAIT = "other jobs wait for the same quota, and nobody knows which one gets what comes free"
NOT_READ = "the jobs of other teams, which use it, could not be read"
NOT_BEGUN = (
    "its team has a right to what it lacks, and no take-back has begun for it: nodes may have no "
    "room, or take-backs for other jobs may come first"
)
BEGINS_S = 15.0
"""From when jobs may give to when they are asked, at the most."""
NOBODY_KNOWN = "whether a scheduler of Cede leads, and under which policy, could not be read"


@dataclass(frozen=True)
class When:
    """One of the two, or none if the causes before it show why."""

    estimate: Estimate | None = None
    # why there is none
    unknown: str = ""


# --- what its team owns ---------------------------------------------------------------------------
def taken_back(workload: Workload, spared_until: float, index: Index) -> When:
    """The job fits into what its team owns, and others, who must give it back, use that. They are
    all old enough to give at `spared_until` (Unix seconds)."""
    policy = index.snapshot.policy
    if policy is None or not leads(index.snapshot, index.now):
        return When(unknown=NOBODY_KNOWN)
    if not is_first(workload, index):
        return When(unknown=NOT_FIRST)
    begins = max(order_time(workload), spared_until) + BEGINS_S
    if begins < index.now:
        return When(unknown=NOT_BEGUN)
    return When(estimate(TAKE_BACK, latest=begins + policy.spec.preemption.graceSeconds))


def is_first(workload: Workload, index: Index) -> bool:
    """Whether Kueue and the scheduler try it before all others of its queue that may ever be
    admitted."""

    def compute() -> str:
        rest = (item for item in pending if not _is_hopeless(item))
        return next((item.metadata.uid for item in rest), "")

    queue = index.queue_name(workload)
    pending = index.pending.get(queue, ())
    return index.once(("first", queue), compute) == workload.metadata.uid


def _is_hopeless(workload: Workload) -> bool:
    """Whether it asks for more than its queue may ever use."""
    reserved = condition(workload.status.conditions, names.QUOTA_RESERVED)
    verdict = kueue_message.parse(reserved.message if reserved else "")
    return bool(verdict.excesses) and not verdict.lacks


# --- what jobs use --------------------------------------------------------------------------------
def when_jobs_end(
    workload: Workload, lack: Lack, asked: int, quota: QueueQuota, index: Index
) -> When:
    """By the maximum execution times of jobs: what its team owns is free, or taken back from
    others; or so much is idle that the team may borrow it."""
    snapshot = index.snapshot
    policy = snapshot.policy
    if not is_first(workload, index):
        return When(unknown=NOT_FIRST)
    knows_others = snapshot.knows(WORKLOADS) and snapshot.knows(COHORTS)
    room = _Room(quota, lack, index)
    why = NO_LIMITS if knows_others else NOT_READ
    for end, team, used in _ends(room.quotas if knows_others else [quota.team], lack, index):
        room.free(team, used)
        if policy and room.owns(asked):
            latest = end + policy.spec.preemption.graceSeconds
            return When(estimate(OWN_TIME_LIMITS, latest=latest))
        if knows_others and room.may_borrow(asked):
            why = OTHERS_WAIT
            if room.may_borrow(asked, _waiting(workload, quota, lack.resource, index)):
                return When(estimate(TIME_LIMITS, latest=end))
    return When(unknown=why)


def _ends(teams: Iterable[str], lack: Lack, index: Index) -> Sequence[tuple[float, str, int]]:
    """When jobs of these teams end at the latest, whose they are, and what they use of it."""
    named = tuple(teams)

    def compute() -> Sequence[tuple[float, str, int]]:
        return sorted(
            (end, team, used)
            for team in named
            for end, used in ends_of(team, lack.flavor, lack.resource, index)
        )

    return index.once(("ends", frozenset(named), lack.flavor, lack.resource), compute)


def _waiting(workload: Workload, quota: QueueQuota, resource: str, index: Index) -> int:
    """What all other jobs ask for that wait in the Cohort, or were stopped and run again: as if
    all of them were admitted before."""

    def compute() -> int:
        return sum(requests(item)[resource] for item in _all_waiting(quota.cohort, index))

    total = index.once(("waiting", quota.cohort, resource), compute)
    return max(0, total - requests(workload)[resource])


def _all_waiting(cohort: str, index: Index) -> Iterator[Workload]:
    for item in index.snapshot.workloads:
        if item.status.admission or is_true(item.status.conditions, names.FINISHED):
            continue
        queue = index.queues.get(index.queue_name(item))
        is_of_cohort = queue is not None and queue.spec.cohortName == cohort
        returns = item.spec.active or names.STOPPED_FOR in item.metadata.labels
        if is_of_cohort and returns and not _is_hopeless(item):
            yield item


class _Room:
    """What a team may use, as Kueue counts it (pkg/cache/scheduler/resource_node.go), while jobs
    end."""

    def __init__(self, own: QueueQuota, lack: Lack, index: Index) -> None:
        self._team = own.team
        others = others_in_cohort(own, lack.flavor, lack.resource, index)
        self.quotas = {quota.team: quota for quota in (own, *others)}
        key = (lack.flavor, lack.resource)
        # of the Cohort, beside what teams keep for themselves; may be less than nothing
        self._idle = idle_in_cohort(own.team, index).get(key, 0)
        self._idle -= sum(quota.kept for quota in self.quotas.values())

    def free(self, team: str, used: int) -> None:
        before = self.quotas[team]
        after = replace(before, used=max(0, before.used - used))
        self.quotas[team] = after
        self._idle += before.shared_use - after.shared_use

    def owns(self, asked: int) -> bool:
        own = self.quotas[self._team]
        return own.used + asked <= own.nominal

    def may_borrow(self, asked: int, waiting: int = 0) -> bool:
        """Also if `waiting` is given to others before."""
        own = self.quotas[self._team]
        rest = self._idle - waiting
        if own.borrowing_limit is not None:
            most = own.nominal - own.never_lent + own.borrowing_limit
            rest = min(rest, most - own.shared_use)
        return asked <= own.kept + rest
