"""PURE. Why a job does not fit into its queue: who has what it lacks, and under which rule."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cede.api.kueue import Workload
from cede.api.objects import ALLOCATIONS, WORKLOADS
from cede.api.resources import amount
from cede.api.wait_reasons import WaitReason
from cede.causes.admission_time import When, taken_back, when_jobs_end
from cede.causes.amounts import requests
from cede.causes.budget import budget_used
from cede.causes.facts import Cause, Holder, shown
from cede.causes.index import Index
from cede.causes.kueue_message import Lack
from cede.causes.maximum import broken_promise
from cede.causes.oversized import is_oversized
from cede.causes.queue_quota import (
    QueueQuota,
    describe_shortage,
    job_holders,
    others_in_cohort,
    own_quota,
    team_holders,
    used_by,
)
from cede.causes.take_back import spared_until, starts_of, why_no_take_back

OWN = "uses the team's own quota"
BORROWS = "borrows"
OF_BORROWER = "is a job of a team that borrows"
OWNS = "uses its own quota"
KEEPS = "does not lend it"


# --- too little is unused -------------------------------------------------------------------------
def too_little(workload: Workload, lack: Lack, queue_name: str, index: Index) -> Iterator[Cause]:
    """What has to change first comes first: why nothing is taken back, then who has it."""
    quota = own_quota(queue_name, lack.flavor, lack.resource, index)
    asked = max(requests(workload)[lack.resource], lack.missing)
    if quota is None:
        missing = shown(lack.resource, lack.missing)
        yield Cause(
            WaitReason.QUOTA_IN_USE,
            f"It asks for {shown(lack.resource, asked)} of {lack.flavor}, and {missing} of that "
            "are in use. Who uses them could not be read.",
            shortage=describe_shortage(lack, asked, None, ()),
        )
        return
    promised = broken_promise(
        quota.used + asked, quota, queue_name, lack.flavor, lack.resource, index
    )
    if promised:
        yield promised
    if quota.used + asked <= quota.nominal:
        yield from _lent(workload, lack, asked, quota, index)
        return
    when = when_jobs_end(workload, lack, asked, quota, index)
    if _is_limited(quota, asked):
        yield _limited(lack, asked, quota, when, index)
        return
    if asked <= quota.nominal:
        yield from _own_jobs_use_it(workload, lack, asked, quota, when, index)
    yield _nothing_idle(lack, asked, quota, when, index)


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
    obstacles = list(why_no_take_back(workload, starts, index))
    yield from obstacles
    when = When()
    if not (obstacles or index.open_cession(workload) or is_oversized(workload, index)):
        when = taken_back(workload, spared_until(workload, starts, index), index)
    yield Cause(
        WaitReason.LENT_QUOTA_IN_USE,
        f"Its team owns what it lacks: {shown(resource, lack.missing)} of {flavor} are lent"
        f"{_named(teams, resource)}.",
        "jobs of these teams end or shrink",
        describe_shortage(lack, asked, quota, holders),
        when.estimate,
        when.unknown,
    )


def _limited(lack: Lack, asked: int, quota: QueueQuota, when: When, index: Index) -> Cause:
    resource, limit = lack.resource, quota.borrowing_limit or 0
    most = shown(resource, quota.nominal + limit)
    holders = job_holders(quota.team, lack.flavor, resource, OWN, index)
    return Cause(
        WaitReason.BORROWING_LIMIT,
        f"Team {quota.team} may use {most} of {lack.flavor}, {shown(resource, limit)} of them "
        f"borrowed, and uses {shown(resource, quota.used)}; this job asks for "
        f"{shown(resource, asked)}.",
        "jobs of the team end or shrink, or an admin raises the borrowing limit",
        describe_shortage(lack, asked, quota, holders),
        when.estimate,
        when.unknown,
    )


def _own_jobs_use_it(
    workload: Workload, lack: Lack, asked: int, quota: QueueQuota, when: When, index: Index
) -> Iterator[Cause]:
    resource, flavor = lack.resource, lack.flavor
    starts = starts_of((quota.team,), index, below=workload.spec.priority)
    allocation = index.allocations.get(quota.team)
    may_preempt = allocation is None or allocation.spec.preemptOwnTasks == "LowerPriority"
    may_tell = index.snapshot.knows(ALLOCATIONS) and allocation is not None
    has_used_budget = allocation is not None and allocation.used_budget is not None
    is_over_budget = has_used_budget and quota.borrowed > 0
    needed = quota.used + asked - quota.nominal
    suffices = _lower_jobs_use(workload, lack, quota.team, index) >= needed
    if starts and may_preempt and may_tell and suffices:
        obstacles = list(why_no_take_back(workload, starts, index))
        yield from obstacles
        begins = not (index.open_cession(workload) or is_oversized(workload, index))
        if begins and not (obstacles or is_over_budget):
            when = taken_back(workload, spared_until(workload, starts, index), index)
    rule = "none of them has lower priority"
    if starts and is_over_budget:
        rule = "the team has used its hard budget, and none of them ends for that"
    elif starts:
        rule = "jobs of lower priority among them"
        if may_tell and not may_preempt:
            rule = "the team's preemptOwnTasks is Never, so none of them gives way"
        elif not suffices:
            rule = "those of lower priority among them use too little to make room"
    holders = job_holders(quota.team, flavor, resource, OWN, index)
    yield Cause(
        WaitReason.OWN_TEAM_USES_QUOTA,
        f"Team {quota.team} owns {shown(resource, quota.nominal)} of {flavor}, and its own jobs "
        f"use {shown(resource, quota.used)}{_named(holders, resource)}; {rule}.",
        "one of these jobs ends, or this job gets a higher priority class",
        describe_shortage(lack, asked, quota, holders),
        when.estimate,
        when.unknown,
    )


def _lower_jobs_use(workload: Workload, lack: Lack, team: str, index: Index) -> int:
    """What jobs of the team with lower priority use."""
    priority = workload.spec.priority

    def compute() -> int:
        lower = (job for job in index.admitted.get(team, ()) if job.spec.priority < priority)
        return sum(used_by(job, lack.flavor, lack.resource) for job in lower)

    return index.once(("lower", team, priority, lack.flavor, lack.resource), compute)


def _nothing_idle(lack: Lack, asked: int, quota: QueueQuota, when: When, index: Index) -> Cause:
    """It would have to borrow."""
    resource, flavor = lack.resource, lack.flavor
    facts = (
        f"It asks for {shown(resource, asked)} of {flavor}, and its team owns "
        f"{shown(resource, quota.nominal)}, of which {shown(resource, quota.used)} are in use"
    )
    if quota.borrowing_limit == 0:
        shortage = describe_shortage(lack, asked, quota, ())
        return budget_used(quota.team, facts, shortage, index) or Cause(
            WaitReason.BORROWING_LIMIT,
            f"{facts}. The team borrows nothing (its sharing strategy).",
            "jobs of the team end, or an admin lets the team borrow",
            shortage,
            when.estimate,
            when.unknown,
        )
    others = _others_of(quota, flavor, resource, index)
    if others.kept >= lack.missing:
        return Cause(
            WaitReason.LENDING_LIMITS,
            f"{facts}. What is idle is not lent{_named(others.keepers, resource)}.",
            "jobs end, or an admin lets these teams lend",
            describe_shortage(lack, asked, quota, others.keepers),
            when.estimate,
            when.unknown,
        )
    return Cause(
        WaitReason.NO_IDLE_CAPACITY,
        f"{facts}. It lacks {shown(resource, lack.missing)}, and no quota that it could borrow is "
        f"idle{_named(others.users, resource)}.",
        "jobs of other teams end or shrink",
        describe_shortage(lack, asked, quota, others.users),
        when.estimate,
        when.unknown,
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
