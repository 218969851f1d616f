"""Claims for a fair share: whoever borrows more gives, and two teams never trade back and forth."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest

from cede.api.reasons import CessionReason
from scheduler.preemption.preemption_plan import PreemptionPlan
from scheduler.preemption.preemptors import ClaimKind
from scheduler.quota.working_quota import WorkingQuota
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload, PendingWorkloads
from tests.builders.plans import preemption_plans
from tests.builders.scheduler import (
    KEY,
    admitted,
    cohort_quota,
    gpus,
    pending,
    queue,
    snapshot,
)

WORLDS = 300
MANY_WORLDS = 10_000


def plans(current: Snapshot, *, fair_shares: bool = True) -> list[PreemptionPlan]:
    """Those with targets."""
    return [plan for plan in preemption_plans(current, fair_shares=fair_shares) if plan.targets]


def used_by_team(jobs: Iterable[AdmittedWorkload]) -> Counter[str]:
    used = Counter[str]()
    for job in jobs:
        used[job.queue] += job.size
    return used


def world(*jobs: AdmittedWorkload, claim: PendingWorkload, idle: int = 0) -> Snapshot:
    """`vision` and `research` own nothing and borrow all there is."""
    used = used_by_team(jobs)
    queues = [queue(name, 0, used[name]) for name in TEAMS]
    total = used.total() + idle
    return snapshot(cohort_quota(*queues, cohort_nominal=total), admitted=jobs, pending=[claim])


TEAMS = ("vision", "research")


def test_a_team_that_borrows_less_takes_by_a_shrink() -> None:
    (plan,) = plans(world(admitted(size=8), claim=pending(pods=4)))
    assert [(target.job.name, target.size) for target in plan.targets] == [("gpt", 4)]
    assert plan.reason is CessionReason.RECLAIM_FAIR_SHARE


def test_it_takes_no_more_than_an_equal_share() -> None:
    assert plans(world(admitted(size=8), claim=pending(pods=5))) == []


def test_a_job_that_cannot_shrink_is_stopped_only_if_the_rest_is_still_more() -> None:
    rigid = admitted("rigid", size=4, allowed_sizes=())
    assert plans(world(rigid, claim=pending(pods=2))) == []
    other = admitted("other", size=2, allowed_sizes=())
    (plan,) = plans(world(rigid, other, claim=pending(pods=2)))
    assert [target.job.name for target in plan.targets] == ["other"]


def test_without_fair_shares_nobody_gives_to_a_borrower() -> None:
    assert plans(world(admitted(size=8), claim=pending(pods=4)), fair_shares=False) == []


# --- random worlds --------------------------------------------------------------------------------
def random_world(random: Random) -> Snapshot:
    """Two teams that own little and borrow the rest, with weights; one claims."""
    jobs = list[AdmittedWorkload]()
    for number in range(random.randint(1, 6)):
        size = random.randint(1, 6)
        sizes = tuple(range(1, size + 1)) if random.random() < 0.6 else ()
        jobs.append(admitted(str(number), random.choice(TEAMS), size, sizes))
    used = used_by_team(jobs)
    queues = [
        replace(
            queue(name, random.randint(0, 2), used[name]), weight=random.choice([1.0, 1.0, 3.0])
        )
        for name in TEAMS
    ]
    idle = random.randint(0, 2)
    lent = sum(used.values()) + idle - sum(q.quotas[KEY].nominal for q in queues)
    claim = pending("claim", random.choice(TEAMS), random.randint(1, 5))
    quota = cohort_quota(*queues, cohort_nominal=max(0, lent))
    return snapshot(quota, admitted=jobs, pending=[claim])


def after(current: Snapshot, plan: PreemptionPlan) -> Snapshot:
    """The preemptor runs; whoever was stopped waits, and whoever shrank wants its size back."""
    quota = WorkingQuota(current.quota)
    jobs = {job.uid: job for job in current.admitted}
    waiting = list[PendingWorkload]()
    for target in plan.targets:
        job = jobs.pop(target.job.uid)
        quota.remove(job.queue, target.released)
        if not target.stops:
            size = target.size
            jobs[job.uid] = replace(job, size=size, usage=gpus(size), parallelism=size)
        waiting.append(pending(f"again-{job.name}", job.queue, job.size - target.size))
    claim = plan.preemptor.workload
    quota.add(claim.queue, plan.preemptor.request)
    runs = admitted("claim", claim.queue, plan.preemptor.request[KEY], ())
    return replace(
        current,
        quota=quota.frozen(),
        admitted=(*jobs.values(), runs),
        pending=PendingWorkloads(waiting),
    )


def check_no_trade_back(seed: int) -> bool:
    """Whether somebody gave for a fair share."""
    current = random_world(Random(seed))  # noqa: S311
    claims = [p for p in plans(current) if p.preemptor.kind is ClaimKind.FAIR_SHARE]
    for plan in claims:
        then = after(current, plan)
        quota = WorkingQuota(then.quota)
        own = plan.preemptor.workload.queue
        others = {target.job.queue for target in plan.targets} - {own}
        assert all(quota.share(name) >= quota.share(own) for name in others), seed
        again = [p for p in plans(then) if p.preemptor.kind is ClaimKind.FAIR_SHARE]
        back = {target.job.queue for p in again for target in p.targets}
        assert own not in back, seed
    return bool(claims)


def test_teams_do_not_trade_back_and_forth() -> None:
    claimed = sum(check_no_trade_back(seed) for seed in range(WORLDS))
    assert claimed > WORLDS / 30


@pytest.mark.slow
def test_in_many_worlds_teams_do_not_trade_back_and_forth() -> None:
    for seed in range(MANY_WORLDS):
        check_no_trade_back(seed)
