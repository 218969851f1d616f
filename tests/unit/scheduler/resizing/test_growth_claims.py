"""An elastic job grows into quota that its team owns, though others borrow it: as far as they can
release it."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.policy import PolicySpec, Preemption
from scheduler.preemption.preemption_plan import PreemptionPlan, Target
from scheduler.preemption.preemptors import ClaimKind, Preemptor
from scheduler.resizing.growth_claims import Choose, claim_growth
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.scheduler import (
    FLAVOR,
    KEY,
    NOW,
    admitted,
    cohort_quota,
    queue,
    runtime_status,
    snapshot,
)

POLICY = PolicySpec(preemption=Preemption(growCooldownSeconds=60))
BORROWER = admitted("borrower", size=6)


def owner(
    size: int = 2,
    allowed_sizes: tuple[int, ...] = tuple(range(2, 13)),
    *,
    desired_size: int = 8,
    shrunk_at: float = 0.0,
    parallelism: int | None = None,
    name: str = "owner",
) -> AdmittedWorkload:
    """A job of vision, which owns eight."""
    return admitted(
        name,
        "vision",
        size,
        allowed_sizes,
        desired_size=desired_size,
        shrunk_at=shrunk_at,
        parallelism=parallelism,
        runtime=runtime_status(size),
    )


def lent(*jobs: AdmittedWorkload, borrowed: int = 6, nominal: int = 8) -> Snapshot:
    """Research owns nothing, and borrows six of the eight."""
    used = sum(job.size for job in jobs)
    quota = cohort_quota(queue("vision", nominal, used=used), queue("research", 0, used=borrowed))
    return snapshot(quota, admitted=[*jobs, BORROWER])


def releasing(amount: int) -> Choose:
    """The borrowers can release so much."""

    def choose(preemptor: Preemptor) -> PreemptionPlan:
        assert preemptor.kind is ClaimKind.GROWTH
        targets = (Target(BORROWER, 0),) if preemptor.missing[KEY] <= amount else ()
        return PreemptionPlan(preemptor, targets, "because")

    return choose


def sizes(
    current: Snapshot,
    amount: int = 6,
    promised: Collection[str] = (),
    busy_queues: Collection[str] = (),
    paused: Collection[str] = (),
) -> dict[str, int]:
    actions = claim_growth(
        current,
        POLICY,
        NOW,
        releasing(amount),
        promised=promised,
        busy_queues=busy_queues,
        paused=paused,
    )
    return {action.job[1]: action.size for action in actions}


@pytest.mark.parametrize(
    ("current", "amount", "expected"),
    [
        pytest.param(lent(owner()), 6, {"owner": 8}, id="all that its team owns"),
        pytest.param(lent(owner()), 3, {"owner": 5}, id="as far as borrowers can release it"),
        pytest.param(lent(owner()), 0, {}, id="borrowers can release nothing"),
        pytest.param(lent(owner(desired_size=12)), 99, {"owner": 8}, id="not beyond its own"),
        pytest.param(lent(owner(desired_size=4)), 6, {"owner": 4}, id="not above the desired size"),
        pytest.param(lent(owner(allowed_sizes=(2, 5, 8))), 4, {"owner": 5}, id="an allowed size"),
        pytest.param(lent(owner(), borrowed=0), 6, {}, id="it fits, and needs no claim"),
        pytest.param(lent(owner(shrunk_at=NOW - 30)), 6, {}, id="not within the cooldown"),
        pytest.param(lent(owner(parallelism=4)), 6, {}, id="its slice is pending"),
        pytest.param(
            lent(owner(), owner(name="other", parallelism=3)),
            6,
            {},
            id="another's slice is pending",
        ),
        pytest.param(lent(owner(), nominal=0), 6, {}, id="its team owns nothing"),
    ],
)
def test_the_size_that_is_claimed(current: Snapshot, amount: int, expected: dict[str, int]) -> None:
    assert sizes(current, amount) == expected


def test_no_growth_is_claimed_beside_an_open_cession() -> None:
    """Neither of its queue nor of its flavor."""
    assert sizes(lent(owner()), promised=[FLAVOR]) == {}
    assert sizes(lent(owner()), busy_queues=["vision"]) == {}


def test_a_job_whose_last_claim_failed_lets_others_claim() -> None:
    current = lent(owner(), owner(name="second"), borrowed=4)
    assert sizes(current, paused=["job-uid-owner"]) == {"second": 6}


def test_jobs_of_a_team_grow_one_after_the_other() -> None:
    assert sizes(lent(owner(), owner(name="second"), borrowed=4)) == {"owner": 6}


@given(st.integers(0, 12), st.sets(st.integers(1, 12), min_size=1), st.integers(1, 16))
def test_a_claimed_size_is_allowed_owned_and_released(
    amount: int, allowed: set[int], nominal: int
) -> None:
    allowed_sizes = tuple(sorted(allowed | {2}))
    job = owner(allowed_sizes=allowed_sizes, desired_size=12)
    current = lent(job, nominal=nominal)
    for size in sizes(current, amount).values():
        assert size in allowed_sizes
        assert 2 < size <= min(12, nominal)
        missing = current.quota.missing("vision", job.quota_for(size - 2))
        assert 0 < missing[KEY] <= amount
