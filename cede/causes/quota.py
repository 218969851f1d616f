"""PURE. Why a job does not fit into its queue: who has what it lacks, and under which rule."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cede.api.allocation import ComputeAllocation
from cede.api.kueue import Workload
from cede.api.objects import ALLOCATIONS, CLUSTER_QUEUES, WORKLOADS, condition
from cede.api.reasons import AllocationReason
from cede.api.resources import amount
from cede.api.wait_reasons import WaitReason
from cede.causes.amounts import requests
from cede.causes.budget import budget_used
from cede.causes.facts import Cause, Estimate, Holder, Shortage, estimate, exact, shown
from cede.causes.index import Index
from cede.causes.kueue_message import Excess, Lack
from cede.causes.queue_quota import (
    QueueQuota,
    job_holders,
    others_in_cohort,
    queue_quota,
    team_holders,
)
from cede.causes.take_back import starts_of, why_no_take_back
from cede.causes.time_limits import freed_by

OWN = "uses the team's own quota"
BORROWS = "borrows"
OF_BORROWER = "is a job of a team that borrows"
OWNS = "uses its own quota"
KEEPS = "does not lend it"
TIME_LIMITS = (
    "the maximum execution times of the team's jobs, and graceSeconds of the policy, if no job "
    "comes before this one"
)


# --- more than there may ever be ------------------------------------------------------------------
def exceeds_maximum(excess: Excess, queue_name: str, index: Index) -> Cause:
    """It would never fit, unless the team was promised so much."""
    resource, flavor = excess.resource, excess.flavor
    quota = _own_quota(queue_name, flavor, resource, index)
    promised = _broken_promise(excess.asked, quota, queue_name, flavor, resource, index)
    if promised:
        return promised
    asked = shown(resource, excess.asked)
    limits = shown(resource, excess.maximum)
    lack = Lack(resource, flavor, excess.asked - excess.maximum)
    shortage = _shortage(lack, excess.asked, quota, ())
    facts = f"It asks for {asked} of {flavor}, and queue {queue_name} may"
    return budget_used(queue_name, f"{facts} use {limits} now", shortage, index) or Cause(
        WaitReason.EXCEEDS_MAXIMUM,
        f"{facts} never use more than {limits}{_limits(quota, resource)}.",
        "ask for less, or have an admin raise the team's quota or its borrowing limit",
        shortage,
    )


def _limits(quota: QueueQuota | None, resource: str) -> str:
    if quota is None:
        return ""
    owned = f": it owns {shown(resource, quota.nominal)}"
    if quota.borrowing_limit is None:
        return f"{owned}, and borrows what others lend"
    return f"{owned}, and may borrow {shown(resource, quota.borrowing_limit)}"


def _broken_promise(
    wanted: int,
    quota: QueueQuota | None,
    queue_name: str,
    flavor: str,
    resource: str,
    index: Index,
) -> Cause | None:
    """Whether the quota was meant to be large enough for `wanted`, and the nodes are not."""
    allocation = index.allocations.get(queue_name)
    if quota is None or allocation is None or wanted <= quota.nominal:
        return None
    nominal = _promised(allocation, flavor, resource)
    ready = condition(allocation.status.conditions, "Ready") or {}
    if nominal < wanted:
        return None
    message = str(ready.get("message", "")).rstrip(".")
    facts = (
        f"Team {allocation.team} was promised {shown(resource, nominal)} of {flavor}, and has "
        f"{shown(resource, quota.nominal)}: {message}."
    )
    if ready.get("reason") in (AllocationReason.OVERSUBSCRIBED, AllocationReason.NO_NODES_YET):
        cure = "an admin adds nodes, or reduces the allocations to what the nodes hold"
        return Cause(WaitReason.OVERSUBSCRIBED_QUOTA, facts, cure)
    if ready.get("reason") == AllocationReason.INSUFFICIENT_NODES:
        return Cause(WaitReason.NODES_DOWN, facts, "nodes of this type come back, or are added")
    return None


def _promised(allocation: ComputeAllocation, type_: str, resource: str) -> int:
    """A flavor has the name of its instance type."""
    for quota in allocation.status.quotas:
        if quota.instanceType == type_ and resource in quota.nominal:
            return amount(resource, quota.nominal[resource])
    return 0


# --- too little is unused -------------------------------------------------------------------------
def too_little(workload: Workload, lack: Lack, queue_name: str, index: Index) -> Iterator[Cause]:
    """What has to change first comes first: why nothing is taken back, then who has it."""
    quota = _own_quota(queue_name, lack.flavor, lack.resource, index)
    asked = max(requests(workload)[lack.resource], lack.missing)
    if quota is None:
        missing = shown(lack.resource, lack.missing)
        yield Cause(
            WaitReason.QUOTA_IN_USE,
            f"It asks for {shown(lack.resource, asked)} of {lack.flavor}, and {missing} of that "
            "are in use. Who uses them could not be read.",
            shortage=_shortage(lack, asked, None, ()),
        )
        return
    promised = _broken_promise(
        quota.used + asked, quota, queue_name, lack.flavor, lack.resource, index
    )
    if promised:
        yield promised
    if quota.used + asked <= quota.nominal:
        yield from _lent(workload, lack, asked, quota, index)
    elif _is_limited(quota, asked):
        yield _limited(lack, asked, quota, index)
    else:
        if asked <= quota.nominal:
            yield from _own_jobs_use_it(workload, lack, asked, quota, index)
        yield _nothing_idle(lack, asked, quota, index)


def _is_limited(quota: QueueQuota, asked: int) -> bool:
    limit = quota.borrowing_limit
    return limit is not None and limit > 0 and quota.used + asked > quota.nominal + limit


def _lent(
    workload: Workload, lack: Lack, asked: int, quota: QueueQuota, index: Index
) -> Iterator[Cause]:
    """The team owns it beside all that it uses."""
    resource, flavor = lack.resource, lack.flavor
    others = others_in_cohort(quota, flavor, resource, index)
    borrowing = [(other, other.borrowed) for other in others if other.borrowed]
    teams = list(team_holders(borrowing, resource, BORROWS))
    holders = list(teams)
    for team in teams[:MAX_NAMED]:
        holders += job_holders(team.team, flavor, resource, OF_BORROWER, index)
    starts = None
    if index.snapshot.knows(WORKLOADS):
        starts = starts_of((other.team for other, _ in borrowing), index)
    yield from why_no_take_back(workload, starts, index)
    yield Cause(
        WaitReason.LENT_QUOTA_IN_USE,
        f"Its team owns what it lacks: {shown(resource, lack.missing)} of {flavor} are lent"
        f"{_named(teams, resource)}.",
        "jobs of these teams end or shrink",
        _shortage(lack, asked, quota, holders),
    )


def _limited(lack: Lack, asked: int, quota: QueueQuota, index: Index) -> Cause:
    resource, limit = lack.resource, quota.borrowing_limit or 0
    most = shown(resource, quota.nominal + limit)
    holders = job_holders(quota.team, lack.flavor, resource, OWN, index)
    return Cause(
        WaitReason.BORROWING_LIMIT,
        f"Team {quota.team} may use {most} of {lack.flavor}, {shown(resource, limit)} of them "
        f"borrowed, and uses {shown(resource, quota.used)}; this job asks for "
        f"{shown(resource, asked)}.",
        "jobs of the team end or shrink, or an admin raises the borrowing limit",
        _shortage(lack, asked, quota, holders),
    )


def _own_jobs_use_it(
    workload: Workload, lack: Lack, asked: int, quota: QueueQuota, index: Index
) -> Iterator[Cause]:
    resource, flavor = lack.resource, lack.flavor
    starts = starts_of((quota.team,), index, below=workload.spec.priority)
    allocation = index.allocations.get(quota.team)
    may_preempt = allocation is None or allocation.spec.preemptOwnTasks == "LowerPriority"
    may_tell = index.snapshot.knows(ALLOCATIONS) and allocation is not None
    if starts and may_preempt and may_tell:
        yield from why_no_take_back(workload, starts, index)
    rule = "none of them has lower priority"
    if starts and allocation and allocation.used_budget and quota.borrowed:
        rule = "the team has used its hard budget, and none of them ends for that"
    elif starts:
        rule = "jobs of lower priority among them"
        if may_tell and not may_preempt:
            rule = "the team's preemptOwnTasks is Never, so none of them gives way"
    holders = job_holders(quota.team, flavor, resource, OWN, index)
    yield Cause(
        WaitReason.OWN_TEAM_USES_QUOTA,
        f"Team {quota.team} owns {shown(resource, quota.nominal)} of {flavor}, and its own jobs "
        f"use {shown(resource, quota.used)}{_named(holders, resource)}; {rule}.",
        "one of these jobs ends, or this job gets a higher priority class",
        _shortage(lack, asked, quota, holders),
        _when_they_end(workload, lack, asked, quota, index),
    )


def _when_they_end(
    workload: Workload, lack: Lack, asked: int, quota: QueueQuota, index: Index
) -> Estimate | None:
    """For the first in its queue: when what its team owns is free, or taken back from others."""
    pending = index.pending.get(quota.team, ())
    if not pending or pending[0].metadata.uid != workload.metadata.uid:
        return None
    needed = quota.used + asked - quota.nominal
    latest = freed_by(quota.team, lack.flavor, lack.resource, needed, index)
    policy = index.snapshot.policy
    if not latest or policy is None:
        return None
    return estimate(TIME_LIMITS, latest=latest + policy.spec.preemption.graceSeconds)


def _nothing_idle(lack: Lack, asked: int, quota: QueueQuota, index: Index) -> Cause:
    """It would have to borrow."""
    resource, flavor = lack.resource, lack.flavor
    facts = (
        f"It asks for {shown(resource, asked)} of {flavor}, and its team owns "
        f"{shown(resource, quota.nominal)}, of which {shown(resource, quota.used)} are in use"
    )
    if quota.borrowing_limit == 0:
        shortage = _shortage(lack, asked, quota, ())
        return budget_used(quota.team, facts, shortage, index) or Cause(
            WaitReason.BORROWING_LIMIT,
            f"{facts}. The team borrows nothing (its sharing strategy).",
            "jobs of the team end, or an admin lets the team borrow",
            shortage,
        )
    others = _others_of(quota, flavor, resource, index)
    if others.kept >= lack.missing:
        return Cause(
            WaitReason.LENDING_LIMITS,
            f"{facts}. What is idle is not lent{_named(others.keepers, resource)}.",
            "jobs end, or an admin lets these teams lend",
            _shortage(lack, asked, quota, others.keepers),
        )
    return Cause(
        WaitReason.NO_IDLE_CAPACITY,
        f"{facts}. It lacks {shown(resource, lack.missing)}, and no quota that it could borrow is "
        f"idle{_named(others.users, resource)}.",
        "jobs of other teams end or shrink",
        _shortage(lack, asked, quota, others.users),
    )


@dataclass(frozen=True)
class _Others:
    """The other teams of a Cohort: what they keep idle, who keeps it, and who uses theirs."""

    kept: int
    keepers: Sequence[Holder]
    users: Sequence[Holder]


def _others_of(quota: QueueQuota, flavor: str, resource: str, index: Index) -> _Others:
    def compute() -> _Others:
        others = others_in_cohort(quota, flavor, resource, index)
        kept = [(other, other.kept) for other in others if other.kept]
        users = [(other, other.used) for other in others if other.used]
        return _Others(
            sum(idle for _, idle in kept),
            list(team_holders(kept, resource, KEEPS)),
            list(team_holders(users, resource, OWNS)),
        )

    return index.once(("others", quota.team, flavor, resource), compute)


# --- texts ----------------------------------------------------------------------------------------
MAX_NAMED = 3


def _named(holders: Sequence[Holder], resource: str) -> str:
    """Who has it: `, such as research with 4 nvidia.com/gpu`; empty without a name."""
    if not holders:
        return ""
    entries = [
        f"{holder.job or 'team ' + holder.team} has "
        f"{shown(resource, amount(resource, holder.amount))}"
        for holder in holders[:MAX_NAMED]
    ]
    more = len(holders) - len(entries)
    return f" ({', '.join(entries)}{f' and {more} more' if more else ''})"


def _own_quota(queue_name: str, flavor: str, resource: str, index: Index) -> QueueQuota | None:
    if not index.snapshot.knows(CLUSTER_QUEUES):
        return None
    queue = index.queues.get(queue_name)
    return queue_quota(queue, flavor, resource) if queue else None


def _shortage(
    lack: Lack, asked: int, quota: QueueQuota | None, holders: Sequence[Holder]
) -> Shortage:
    resource = lack.resource
    limit = quota.borrowing_limit if quota else None
    return Shortage(
        resource,
        lack.flavor,
        asked=exact(resource, asked),
        free=exact(resource, max(0, asked - lack.missing)),
        missing=exact(resource, lack.missing),
        owned=exact(resource, quota.nominal) if quota else "",
        used=exact(resource, quota.used) if quota else "",
        may_borrow=None if limit is None else exact(resource, limit),
        holders=tuple(holders),
    )
