"""A claim for which the usual choice has more jobs than one Cession holds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.api.cession_status import MAX_TARGETS
from scheduler.plan import plan
from scheduler.preemption import targets
from scheduler.preemption.preemption_plan import PreemptionPlan
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.plans import POLICY, opened, planned, preemption_plans, sizes
from tests.builders.scheduler import NOW, admitted, cohort_quota, pending, queue, snapshot

LARGE = {f"large-{number}" for number in range(6)}


def small(
    count: int, size: int = 1, smallest: int = 0, priority: int = 50
) -> list[AdmittedWorkload]:
    """Rigid ones, or elastic ones that shrink to `smallest`; younger than the large ones."""
    allowed = (smallest, size) if smallest else ()
    names = [f"small-{number}" for number in range(count)]
    return [
        admitted(name, "research", size, allowed, priority=priority, started=NOW - 500)
        for name in names
    ]


def large(allowed_sizes: tuple[int, ...] = (), priority: int = 50) -> list[AdmittedWorkload]:
    return [
        admitted(name, "research", 400, allowed_sizes, priority=priority) for name in sorted(LARGE)
    ]


def claim_on(jobs: list[AdmittedWorkload], missing: int) -> PreemptionPlan:
    """Vision owns so much, and research has borrowed all of it."""
    [result] = preemption_plans(snapshot_of(jobs, missing), POLICY)
    return result


def snapshot_of(jobs: list[AdmittedWorkload], missing: int) -> Snapshot:
    used = sum(job.size for job in jobs)
    quota = cohort_quota(queue("vision", missing), queue("research", used - missing, used))
    return snapshot(quota, admitted=jobs, pending=[pending(pods=missing)])


@pytest.mark.parametrize("count", [MAX_TARGETS + 1, 2 * MAX_TARGETS])
@pytest.mark.parametrize(
    ("smallest", "sizes_of_large"),
    [
        pytest.param(0, (), id="stops"),
        pytest.param(1, tuple(range(1, 401)), id="shrinks"),
    ],
)
def test_a_few_large_jobs_give_where_the_small_ones_are_too_many(
    count: int, smallest: int, sizes_of_large: tuple[int, ...]
) -> None:
    jobs = [*small(count, 1 + smallest, smallest), *large(sizes_of_large)]
    [cession] = opened(planned(snapshot_of(jobs, count)))
    assert {target.job for target in cession.spec.targets} <= LARGE
    assert "one Cession holds 1000 jobs, so of each class the largest give" in cession.spec.why
    assert cession.spec.alternatives == []


def test_the_plan_of_a_pass_names_the_claims_for_which_too_many_would_give() -> None:
    jobs = small(MAX_TARGETS + 1)
    claims = plan(snapshot_of(jobs, MAX_TARGETS + 1), POLICY, NOW).oversized
    assert claims == {"uid-claim"}
    assert plan(snapshot_of(jobs, MAX_TARGETS), POLICY, NOW).oversized == frozenset()


def test_jobs_that_lose_least_give_as_long_as_one_cession_holds_them() -> None:
    usual = claim_on([*small(MAX_TARGETS), *large()], MAX_TARGETS)
    assert len(usual.targets) == MAX_TARGETS
    assert LARGE.isdisjoint(sizes([usual]))
    assert "largest" not in usual.why


@pytest.mark.parametrize(
    "jobs",
    [
        pytest.param(small(2 * MAX_TARGETS), id="no larger ones"),
        pytest.param([*small(2 * MAX_TARGETS, priority=10), *large()], id="not of a higher class"),
        pytest.param([*small(2 * MAX_TARGETS, 2, smallest=1), *large()], id="shrinks before stops"),
    ],
)
def test_nobody_gives_where_the_rules_leave_too_many(jobs: list[AdmittedWorkload]) -> None:
    refused = claim_on(jobs, 2 * MAX_TARGETS)
    assert (refused.targets, refused.is_oversized) == ((), True)
    assert refused.why == (
        "claim (vision) stays pending: 2000 jobs would have to release capacity, more than the "
        "1000 of one Cession"
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 40), st.integers(1, 6))
def test_of_one_class_there_are_targets_whenever_few_enough_jobs_suffice(
    sizes_held: list[int], missing: int, limit: int
) -> None:
    missing = min(missing, sum(sizes_held))
    jobs = [admitted(f"job-{i}", "research", size, ()) for i, size in enumerate(sizes_held)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(targets, "MAX_TARGETS", limit)
        choice = claim_on(jobs, missing)
    suffices = sum(sorted(sizes_held)[-limit:]) >= missing
    assert bool(choice.targets) == suffices != choice.is_oversized
    assert len(choice.targets) <= limit
