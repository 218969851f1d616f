"""Growth within a plan: what is promised to a preemptor stays free, and an owner's growth is a
claim."""

from dataclasses import replace

import pytest

from cede.api.objects import rfc3339
from cede.api.reasons import CessionPhase
from scheduler.plan import plan
from scheduler.snapshot.workloads import PendingWorkloads
from tests.builders.plans import POLICY, opened, planned, resizes
from tests.builders.scheduler import (
    NOW,
    admitted,
    cession,
    cohort_quota,
    pending,
    queue,
    runtime_status,
    snapshot,
)


def test_nothing_grows_into_what_a_preemptor_waits_for() -> None:
    job = admitted("other", size=2, runtime=runtime_status(2, wanted=2))
    waiting = snapshot(
        cohort_quota(queue("vision", used=2), queue("research", used=2)),
        admitted=[job],
        pending=[pending()],
        cessions=[cession("Asked")],
    )
    assert not resizes(planned(waiting))


@pytest.mark.parametrize(
    ("pods", "overdue", "grows_to"),
    [
        pytest.param(4, frozenset[str](), [], id="it is admitted in a moment"),
        pytest.param(4, frozenset({"uid-slice"}), [6], id="Kueue passes it over"),
        pytest.param(99, frozenset[str](), [6], id="it does not fit, perhaps for days"),
    ],
)
def test_a_slice_that_nobody_withdraws_holds_growth_up_only_while_it_could_be_admitted(
    pods: int, overdue: frozenset[str], grows_to: list[int]
) -> None:
    """Kueue 0.19.2 admits too much if two slices of one flavor meet in one cycle."""
    job = admitted(size=2, runtime=runtime_status(2, wanted=2))
    ray = replace(admitted("ray", "vision", 2, ()), job_version="", parallelism=0)
    slice_ = pending("slice", "vision", pods, job_uid=ray.job_uid, is_scale_up=True)
    current = snapshot(admitted=[job, ray], pending=[slice_], overdue=overdue)
    assert [action.size for action in resizes(planned(current))] == grows_to


OWNER = admitted("speech", "vision", 2, desired_size=6, runtime=runtime_status(2, wanted=2))
BORROWER = admitted(size=6, runtime=runtime_status(6, wanted=6))
LENT = snapshot(
    cohort_quota(queue("vision", 8, used=2), queue("research", 0, used=6)),
    admitted=[OWNER, BORROWER],
)
SCALE_UP = pending(
    "speech", "vision", 4, job_uid=OWNER.job_uid, is_scale_up=True, created=rfc3339(NOW)
)
GROWING = replace(
    LENT, admitted=(replace(OWNER, parallelism=6), BORROWER), pending=PendingWorkloads([SCALE_UP])
)


def test_an_elastic_owner_takes_its_own_quota_back() -> None:
    """First its size is raised. Then its slice is a preemptor, and is not withdrawn."""
    assert [(a.job[1], a.size, a.grows) for a in resizes(planned(LENT))] == [("speech", 6, True)]
    (made,) = opened(planned(GROWING))
    assert [(t.job, t.toSize) for t in made.spec.targets] == [("gpt", 2)]
    later = planned(replace(GROWING, cessions=(made,)), NOW + 20)
    assert not [action for action in resizes(later) if action.job[1] == "speech"]


def test_after_a_growth_that_failed_the_job_asks_nobody_for_a_while() -> None:
    """Neither is its size raised, nor the slice of another growth served."""
    (made,) = opened(planned(GROWING))
    status = {"phase": CessionPhase.FAILED, "completionTime": rfc3339(NOW)}
    failed = made.model_copy(update={"status": made.status.model_copy(update=status)})
    assert not planned(replace(LENT, cessions=(failed,)), NOW + 29)
    assert planned(replace(LENT, cessions=(failed,)), NOW + 30)

    another = replace(SCALE_UP, uid="uid-another", created=rfc3339(NOW + 29))
    again = replace(GROWING, pending=PendingWorkloads([another]), cessions=(failed,))
    assert not opened(planned(again, NOW + 29))
    assert opened(planned(again, NOW + 30))


def test_a_team_grows_within_its_own_before_others_borrow_it() -> None:
    """`next` fits, and would be the first to borrow: Kueue admits the owner's slice before it."""
    quota = cohort_quota(queue("vision", 8, used=4), queue("research", 8, used=8))
    owner = admitted("speech", "vision", 4, desired_size=8, runtime=runtime_status(4, wanted=4))
    other = admitted(size=8, runtime=runtime_status(8, wanted=8))
    current = snapshot(quota, admitted=[owner, other], pending=[pending("next", "research", 4)])
    assert [(a.job[1], a.size) for a in resizes(planned(current))] == [("speech", 8)]


def test_in_mode_observe_no_growth_is_claimed() -> None:
    quota = cohort_quota(queue("vision", 8, used=2), queue("research", 0, used=6))
    owner = admitted("speech", "vision", 2, runtime=runtime_status(2, wanted=2))
    current = snapshot(quota, admitted=[owner, admitted(size=6)])
    observing = POLICY.model_copy(update={"mode": "Observe"})
    assert not resizes(list(plan(current, observing, NOW).actions))


def test_jobs_grow_while_the_pods_of_a_preemptor_start() -> None:
    owner = admitted("claim", "vision", 4, (), ready_pods=0)
    job = admitted("other", "speech", 2, runtime=runtime_status(2, wanted=2))
    quota = cohort_quota(queue("vision", used=4), queue("research"), queue("speech", used=2))
    record = cession("Admitted")
    current = snapshot(quota, admitted=[owner, job], cessions=[record])
    assert [action.size for action in resizes(planned(current))] == [8]


def test_a_job_that_shrank_for_a_deleted_preemptor_grows_back_at_once() -> None:
    """Nobody wants what it gave. After a Cession that served its preemptor, it waits."""
    job = admitted(size=4, shrunk_at=NOW - 20, runtime=runtime_status(4, wanted=4))
    target = {"uid": job.identity, "resizeRequestedTime": rfc3339(NOW - 20, micro=True)}
    for phase, grown in (("Cancelled", [8]), ("Completed", [])):
        record = cession(phase, completionTime=rfc3339(NOW - 1), targets=[target])
        actions = planned(snapshot(admitted=[job], cessions=[record]))
        assert [action.size for action in resizes(actions)] == grown
