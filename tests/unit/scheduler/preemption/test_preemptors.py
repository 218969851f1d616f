"""Which pending Workloads may preempt, in whose order, and which may not."""

from collections import Counter
from dataclasses import replace

import pytest

from cede.api.resources import Resources
from scheduler.preemption.job_history import JobHistory
from scheduler.preemption.preemptors import preemptors
from scheduler.quota.cohort import ResourceGroup, ResourceQuota
from scheduler.quota.pod_sets import PodSetRequest
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import PendingWorkload
from tests.builders.scheduler import GPU, admitted, cohort_quota, gpus, pending, queue, snapshot


def names_of(snapshot: Snapshot, *queues_with_open_cession: str) -> list[str]:
    """The preemptors in order."""
    return [preemptor.workload.name for preemptor in preemptors(snapshot, queues_with_open_cession)]


# of research, which owns four
FULL = (admitted(size=8),)


@pytest.mark.parametrize(
    ("workloads", "expected"),
    [
        pytest.param([pending("a", pods=4)], ["a"], id="within the team's own quota"),
        pytest.param([pending("a", pods=5)], [], id="not above the team's own quota"),
        pytest.param(
            [pending("a", pods=5), pending("b", pods=4)],
            ["b"],
            id="behind one that may not preempt",
        ),
        pytest.param(
            [*(pending(f"x{pods}", pods=pods) for pods in range(5, 25)), pending("b", pods=4)],
            ["b"],
            id="behind any number of those",
        ),
        pytest.param(
            [pending("a", pods=4), pending("b", pods=3)],
            ["a", "b"],
            id="each that requests something else",
        ),
        pytest.param(
            [pending("a", pods=4), pending("b", pods=4)],
            ["a"],
            id="the first speaks for all that request the same",
        ),
        pytest.param([pending("a", active=False)], [], id="not an inactive Workload"),
        pytest.param([pending("a", is_scale_up=True)], ["a"], id="a growth within its team's own"),
        pytest.param(
            [pending("a", pods=5, is_scale_up=True)], [], id="not a growth beyond its team's own"
        ),
        pytest.param(
            [pending("a", requested=Resources({"cpu": 1}))],
            [],
            id="not for a resource the queue does not cover",
        ),
        pytest.param(
            [pending("a", queue="research", pods=2)],
            ["a"],
            id="a team that borrows, within the team",
        ),
    ],
)
def test_preemptors(workloads: list[PendingWorkload], expected: list[str]) -> None:
    assert names_of(snapshot(admitted=FULL, pending=workloads)) == expected


def test_a_workload_that_kueue_would_not_try_claims_nothing_and_silences_nobody() -> None:
    gated = pending("a", pods=4, ineligible="it has an admission gate")
    small = pending("b", pods=1, ineligible="Kueue waits before it tries it again")
    workloads = [gated, small, pending("c", pods=4)]
    assert names_of(snapshot(admitted=[admitted(size=7)], pending=workloads)) == ["c"]


def test_only_a_team_that_borrows_exceeds_its_nominal_quota() -> None:
    workloads = [pending("a", pods=4), pending("b", queue="research", pods=2)]
    exceeds = {
        preemptor.workload.name: preemptor.exceeds_nominal
        for preemptor in preemptors(snapshot(admitted=FULL, pending=workloads))
    }
    assert exceeds == {"a": False, "b": True}


def test_behind_a_workload_that_fits_nothing_preempts_in_this_pass() -> None:
    workloads = [pending("a", pods=2), pending("b", pods=4)]
    assert names_of(snapshot(admitted=[admitted(size=6)], pending=workloads)) == []


def test_behind_a_workload_that_fits_and_that_kueue_passes_over_others_preempt() -> None:
    workloads = [pending("a", pods=2), pending("b", pods=4)]
    current = snapshot(admitted=[admitted(size=6)], pending=workloads, overdue=frozenset({"uid-a"}))
    assert names_of(current) == ["b"]


def test_a_queue_with_an_open_cession_has_no_second_preemptor() -> None:
    assert names_of(snapshot(admitted=FULL, pending=[pending("a")]), "vision") == []


def test_a_job_that_was_stopped_for_another_still_reclaims_its_teams_own_quota() -> None:
    """From a third team, while the job that it was stopped for exists. It takes from no lower class
    of its own team."""
    history = JobHistory(stopped_for={"uid-a": frozenset({"uid-owner"})})
    owner = admitted("owner", "speech", 4, ())
    quota = cohort_quota(queue("vision"), queue("speech", used=4), queue("research", used=8))
    stopped = pending("a", priority=90)
    lent = snapshot(quota, admitted=[owner, *FULL], pending=[stopped])
    assert [p.workload.name for p in preemptors(lent, history=history)] == ["a"]
    low = admitted("low", "vision", 4, (), priority=10)
    quota = cohort_quota(queue("vision", used=4), queue("speech", used=4))
    full = snapshot(quota, admitted=[owner, low], pending=[stopped])
    assert list(preemptors(full)), "without the record it would"
    assert not list(preemptors(full, history=history))


def test_a_queue_that_cede_does_not_manage_has_no_preemptor() -> None:
    quota = cohort_quota(queue("vision", managed=False), queue("research", used=8))
    assert names_of(snapshot(quota, admitted=FULL, pending=[pending("a")])) == []


def test_a_preemptor_lacks_what_is_not_available() -> None:
    (preemptor,) = preemptors(snapshot(admitted=[admitted(size=6)], pending=[pending("a", pods=4)]))
    assert preemptor.missing == gpus(2)


def test_a_job_claims_where_kueue_places_it_although_another_choice_would_fit() -> None:
    """Kueue gives its first pods the first flavor, and does not move them for the others."""
    quotas = {(flavor, GPU): ResourceQuota(8) for flavor in ("a100", "h100")}
    used = {(flavor, GPU): 4 for flavor in ("a100", "h100")}
    groups = (ResourceGroup((GPU,), ("a100", "h100")),)
    vision = replace(queue("vision"), quotas=quotas, groups=groups)
    research = replace(queue("research", 0), usage=Counter(used))
    driver = PodSetRequest("driver", 3, Resources({GPU: 1}))
    workers = PodSetRequest("workers", 3, Resources({GPU: 1}), frozenset({"h100"}))
    current = snapshot(
        cohort_quota(vision, research), pending=[pending(pod_sets=(driver, workers))]
    )
    (preemptor,) = preemptors(current)
    assert preemptor.missing == Counter({("a100", GPU): 2})


# --- a hard budget that is used -------------------------------------------------------------------
@pytest.mark.parametrize(
    ("is_over_budget", "used", "expected"),
    [
        pytest.param(False, 12, ["a"], id="within its budget"),
        pytest.param(True, 12, [], id="all that it borrows would have to end"),
        pytest.param(True, 4, ["a"], id="what it owns is enough"),
    ],
)
def test_a_team_over_its_budget_ends_nothing_that_it_borrows(
    is_over_budget: bool, used: int, expected: list[str]
) -> None:
    """Kueue admits no more of its jobs before all of that has ended."""
    limit = 0 if is_over_budget else None
    research = queue("research", 4, used=used, borrowing_limit=limit)
    quota = cohort_quota(
        queue("vision", 12, used=16 - used), replace(research, is_over_budget=is_over_budget)
    )
    jobs = [admitted("sweep", size=used), admitted("other", "vision", size=16 - used)]
    important = pending("a", queue="research", pods=1, priority=90)
    waits = snapshot(quota, admitted=jobs, pending=[important])
    claims = [entry.workload.name for entry in preemptors(waits, fair_shares=True)]
    assert list(dict.fromkeys(claims)) == expected
