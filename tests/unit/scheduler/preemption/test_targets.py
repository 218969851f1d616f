"""Which jobs give way and how little: shrinks before stops, only what Kueue's own rules allow, and
all that is needed or nothing."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.api.policy import PolicySpec, Preemption
from cede.api.reasons import CessionReason
from cede.api.surplus import Base
from scheduler.preemption.preemption_plan import PreemptionPlan
from scheduler.quota.working_quota import WorkingQuota
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload
from tests.builders.plans import preemption_plans, sizes
from tests.builders.scheduler import (
    KEY,
    NOW,
    admitted,
    cohort_quota,
    pending,
    queue,
    snapshot,
)

SURPLUS = replace(
    admitted("more", size=4, allowed_sizes=(1, 4), priority=10, reserved_since=NOW - 30),
    base=Base("job-uid-base", "base-node-0", "child", 4),
)


def plans(snapshot: Snapshot, min_runtime_s: int = 60) -> list[PreemptionPlan]:
    policy = PolicySpec(preemption=Preemption(minRuntimeSeconds=min_runtime_s))
    return preemption_plans(snapshot, policy)


def sizes_for(jobs: list[AdmittedWorkload], workload: PendingWorkload) -> dict[str, int]:
    return sizes(plans(snapshot(admitted=jobs, pending=[workload])))


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        pytest.param([admitted(size=8)], {"gpt": 4}, id="what is needed, no more"),
        pytest.param([admitted(size=8, allowed_sizes=(1, 3, 8))], {"gpt": 3}, id="allowed sizes"),
        pytest.param(
            [admitted("a", size=4), admitted("b", size=4, priority=10)],
            {"a": 2, "b": 2},
            id="several jobs when one is not enough",
        ),
        pytest.param(
            [admitted("a", size=6), admitted("b", size=2, allowed_sizes=())],
            {"a": 2},
            id="a shrink before a stop",
        ),
        pytest.param(
            [admitted(size=8, allowed_sizes=())], {"gpt": 0}, id="a stop if nothing can shrink"
        ),
        pytest.param(
            [admitted(size=8, reserved_since=NOW - 30)], {}, id="not a job that has just started"
        ),
        pytest.param([admitted(size=8, active=False)], {}, id="not a job that is being stopped"),
        pytest.param([admitted(size=4)], {}, id="nothing if the preemptor fits"),
        pytest.param(
            [admitted("base", size=4, allowed_sizes=()), SURPLUS],
            {"more": 0},
            id="a surplus, although it has just started, and not its base",
        ),
        pytest.param(
            [
                admitted("a", size=4, allowed_sizes=()),
                admitted("b", size=4, allowed_sizes=(4,), reserved_since=NOW - 9000),
            ],
            {"b": 0},
            id="of two stops, the one that saves first",
        ),
        pytest.param(
            [
                admitted("a", size=4, allowed_sizes=(), reserved_since=NOW - 400),
                admitted("b", size=4, allowed_sizes=(), reserved_since=NOW - 200),
            ],
            {"b": 0},
            id="of two stops without a save, the one that loses less",
        ),
    ],
)
def test_a_team_reclaims_its_own_quota(
    jobs: list[AdmittedWorkload], expected: dict[str, int]
) -> None:
    assert sizes_for(jobs, pending()) == expected


def test_a_job_with_a_pending_scale_up_slice_is_not_stopped() -> None:
    """Its pods would run on without quota, whoever asked for the slice (Kueue 0.19.2)."""
    job = admitted(size=8, allowed_sizes=())
    slice_ = pending("slice", "research", 2, job_uid=job.job_uid, is_scale_up=True)
    for waiting, expected in (([pending()], {"gpt": 0}), ([pending(), slice_], {})):
        assert sizes(plans(snapshot(admitted=[job], pending=waiting))) == expected


def test_a_job_of_which_pods_have_ended_does_not_shrink() -> None:
    """It would lose the pods of the highest indexes, which may be those that have work."""
    for ended_pods, size in ((0, 4), (2, 0)):
        job = admitted(size=8, allowed_sizes=(2, 4, 6, 8), ended_pods=ended_pods)
        assert sizes_for([job], pending()) == {"gpt": size}


def test_a_stream_of_short_jobs_does_not_keep_an_owner_out() -> None:
    """None of them ever reaches the minimum runtime of 60 s."""
    jobs = [
        admitted(f"short-{age}", size=1, allowed_sizes=(), reserved_since=NOW - age)
        for age in range(10, 50, 5)
    ]
    assert sizes_for(jobs, pending(queued_at=NOW - 59)) == {}
    assert sizes_for(jobs, pending(queued_at=NOW - 60)) == {
        f"short-{age}": 0 for age in (10, 15, 20, 25)
    }


def test_above_its_own_quota_a_team_preempts_only_its_own_lower_priority() -> None:
    jobs = [
        admitted("low", "vision", size=4, priority=10),
        admitted("other", "research", size=4),
    ]
    assert sizes_for(jobs, pending(pods=2, priority=100)) == {"low": 2}


def test_a_team_may_forbid_preemption_among_its_own_jobs() -> None:
    jobs = [
        admitted("low", "vision", size=4, priority=10),
        admitted("other", "research", size=4),
    ]
    quota = cohort_quota(
        queue("vision", used=4, preempts_own_jobs=False), queue("research", used=4)
    )
    current = snapshot(quota, admitted=jobs, pending=[pending(pods=2)])
    assert sizes(plans(current, min_runtime_s=0)) == {}


def test_a_queue_keeps_its_nominal_quota_where_another_can_give_way() -> None:
    jobs = (
        admitted("a", "research", size=8, allowed_sizes=(1, 8)),
        admitted("b", "other", size=6, allowed_sizes=tuple(range(1, 7))),
    )
    queues = (queue("vision", 2), queue("research", 6, used=8), queue("other", 4, used=6))
    quota = cohort_quota(*queues, cohort_nominal=2)
    (plan,) = plans(snapshot(quota, admitted=jobs, pending=[pending(pods=2)]), min_runtime_s=0)
    assert sizes([plan]) == {"b": 4}


def test_a_target_keeps_what_another_releases_too_much() -> None:
    """`fine` shrinks first, to 1. Then `coarse` can release only three at once, so `fine` keeps
    three."""
    jobs = [
        admitted("fine", size=4, allowed_sizes=(1, 2, 3, 4), priority=10),
        admitted("coarse", size=4, allowed_sizes=(1, 4)),
    ]
    assert sizes_for(jobs, pending(pods=4)) == {"fine": 3, "coarse": 1}


def test_lower_priority_in_the_team_gives_way_before_other_teams() -> None:
    """Also if jobs of other teams must give way too."""
    jobs = [
        admitted("low", "vision", size=2, priority=10, allowed_sizes=(1, 2)),
        admitted("other", "research", size=6),
    ]
    assert sizes_for(jobs, pending(pods=3, priority=100)) == {"low": 1, "other": 4}


# --- which team gives -----------------------------------------------------------------------------
def test_the_team_that_is_furthest_over_its_share_gives_first() -> None:
    """Whatever the class of its jobs. `greedy` owns nothing and borrows 8, `modest` one."""
    jobs = [
        admitted("top", "greedy", size=8, priority=90),
        admitted("low", "modest", size=5, allowed_sizes=(4, 5), priority=10),
    ]
    queues = (queue("vision", 9), queue("greedy", 0, used=8), queue("modest", 4, used=5))
    current = snapshot(cohort_quota(*queues), admitted=jobs, pending=[pending(pods=4)])
    assert sizes(plans(current)) == {"top": 4}


def test_teams_that_borrow_the_same_give_the_same() -> None:
    jobs = [admitted(name, name, size=6, allowed_sizes=tuple(range(1, 7))) for name in "ab"]
    queues = (queue("vision", 8), queue("a", 2, used=6), queue("b", 2, used=6))
    current = snapshot(cohort_quota(*queues), admitted=jobs, pending=[pending(pods=4)])
    assert sizes(plans(current)) == {"a": 4, "b": 4}


def test_borrowers_give_before_lower_classes_of_the_own_team() -> None:
    jobs = [
        admitted("low", "vision", size=2, allowed_sizes=(1, 2), priority=10),
        admitted("other", "research", size=6, priority=90),
    ]
    assert sizes_for(jobs, pending(pods=2, priority=50)) == {"other": 4}


def test_of_sizes_that_are_enough_the_smallest_surplus_gives() -> None:
    """`coarse` would release six for one."""
    jobs = [
        admitted("coarse", size=8, allowed_sizes=(2, 8), reserved_since=NOW - 100),
        admitted("fine", size=4, allowed_sizes=(1, 2, 3, 4), reserved_since=NOW - 900),
    ]
    quota = cohort_quota(queue("vision", 4, used=3), queue("research", 11, used=12))
    assert sizes(plans(snapshot(quota, admitted=jobs, pending=[pending(pods=1)]))) == {"fine": 3}


# --- what the snapshot cannot tell ----------------------------------------------------------------
def test_nobody_gives_while_the_snapshot_contradicts_itself() -> None:
    current = snapshot(admitted=[admitted()], pending=[pending()])
    counts = frozenset({("research", KEY)})
    (plan,) = plans(replace(current, disagreement=frozenset({KEY}), disagreements=counts))
    assert plan.targets == ()
    assert "research differs from Kueue's own count" in plan.why


# --- why ------------------------------------------------------------------------------------------
def test_the_plan_is_explained_in_one_sentence() -> None:
    (plan,) = plans(snapshot(admitted=[admitted()], pending=[pending()]))
    assert plan.why == (
        "claim (vision) reclaims its team's own quota: it lacks 4 nvidia.com/gpu; gpt (research) "
        "shrinks from 8 to 4"
    )


def test_a_plan_without_targets_explains_what_is_missing() -> None:
    (plan,) = plans(
        snapshot(admitted=[admitted(allowed_sizes=(6, 8), active=False)], pending=[pending()])
    )
    assert plan.targets == ()
    assert plan.why == (
        "claim (vision) stays pending: it lacks 4 nvidia.com/gpu, and the jobs that it may preempt "
        "cannot release that"
    )


@pytest.mark.parametrize(
    ("jobs", "workload", "reason"),
    [
        pytest.param(
            [admitted()], pending(), CessionReason.RECLAIM_OWN_QUOTA, id="other teams borrow"
        ),
        pytest.param(
            [admitted("low", "vision", size=4, priority=10), admitted("other", size=4)],
            pending(pods=2, priority=100),
            CessionReason.PRIORITY_IN_TEAM,
            id="own team, lower priority",
        ),
        pytest.param(
            [
                admitted("low", "vision", size=2, priority=10, allowed_sizes=(1, 2)),
                admitted("other", size=6),
            ],
            pending(pods=3, priority=100),
            CessionReason.RECLAIM_AND_PRIORITY,
            id="both",
        ),
    ],
)
def test_the_reason_follows_from_the_teams_of_the_targets(
    jobs: list[AdmittedWorkload], workload: PendingWorkload, reason: CessionReason
) -> None:
    (plan,) = plans(snapshot(admitted=jobs, pending=[workload]))
    assert plan.reason is reason


# --- what always holds ----------------------------------------------------------------------------
jobs_of_research = st.lists(
    st.tuples(st.integers(1, 6), st.booleans(), st.integers(0, 100)), min_size=1, max_size=5
)


# a busy machine is no failure
@settings(deadline=None)
@given(shapes=jobs_of_research, pods=st.integers(1, 6), nominal=st.integers(0, 8))
def test_all_or_nothing_and_only_from_queues_that_borrow(
    shapes: list[tuple[int, bool, int]], pods: int, nominal: int
) -> None:
    """A target has an allowed size afterwards or is stopped, and its queue borrowed until then."""
    jobs = [
        admitted(
            str(i),
            size=size,
            allowed_sizes=tuple(range(1, size + 1)) if elastic else (),
            priority=priority,
        )
        for i, (size, elastic, priority) in enumerate(shapes)
    ]
    used = sum(size for size, _, _ in shapes)
    quota = cohort_quota(queue("vision", 6), queue("research", nominal, used=used))
    for plan in plans(snapshot(quota, admitted=jobs, pending=[pending(pods=pods)]), 0):
        left = WorkingQuota(quota)
        for target in plan.targets:
            assert target.size < target.job.size
            assert target.stops or target.size in target.job.allowed_sizes
            assert left.used("research", KEY) > nominal
            left.remove("research", target.released)
        assert not plan.targets or left.fits("vision", plan.preemptor.request)
